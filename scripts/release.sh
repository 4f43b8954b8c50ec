#!/bin/sh
# Builds what is released into dist/: one archive a platform, the list of what each
# program was built from (CycloneDX), and the checksums of all. The same commit gives the
# same bytes on every machine with the same version of Go.
#
#   scripts/release.sh [GOOS/GOARCH ...]
set -eu
cd "$(dirname "$0")/.."

platforms=${*:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
version=$(git describe --tags --always --dirty)
when=$(git log -1 --format=%ct)
rm -rf dist
mkdir dist

for platform in $platforms; do
    os=${platform%/*} arch=${platform#*/}
    name=athena_${version}_${os}_${arch}
    mkdir "dist/$name"
    CGO_ENABLED=0 GOOS=$os GOARCH=$arch GOFLAGS= \
        go build -trimpath -buildvcs=true -ldflags='-s -w -buildid=' -o "dist/$name/athena" ./cmd/athena
    cp LICENSE README.md CHANGELOG.md examples/athena.yaml examples/systemd/athena.service \
        "dist/$name/"
    go run -C scripts/sbom . "$PWD/dist/$name/athena" "$version" >"dist/$name.cdx.json"
    (cd dist && tar --sort=name --mtime="@$when" --owner=0 --group=0 --numeric-owner \
        --mode=u+rw,go+r,go-w -cf - "$name" | gzip -9n >"$name.tar.gz")
    rm -r "dist/$name"
done
(cd dist && sha256sum -- *.tar.gz *.cdx.json >SHA256SUMS && cat SHA256SUMS)
