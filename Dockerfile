# An image with nothing but the daemon, which knows its commit and tag from .git:
#   docker build -t athena .
# The group is root's, as platforms of containers expect: secrets that they mount
# belong to root, and are given to a group.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH
ENV GOOS=$TARGETOS GOARCH=$TARGETARCH
RUN make build && scripts/licenses.sh /out/licenses && install -d -m 0770 /out/data

FROM scratch
COPY --from=build /src/bin/athena /usr/local/bin/athena
COPY --from=build /out/licenses /licenses
COPY --from=build /src/LICENSE /licenses/
COPY --from=build --chown=65532:0 /out/data /data
USER 65532:0
# The store is a folder in the volume, made by the daemon for itself alone.
ENV ATHENA_DATA_DIR=/data/athena
VOLUME /data
EXPOSE 7000/udp
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/athena"]
CMD ["run"]
