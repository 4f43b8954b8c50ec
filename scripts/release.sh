#!/bin/sh
# Builds a release in dist/: an archive and an SBOM (CycloneDX) per platform, and the checksums. An
# archive holds the program, its systemd unit with a configuration file, and all licences. It is
# reproducible: the same commit and version of Go give the same bytes.
#
#   scripts/release.sh [GOOS/GOARCH ...]
set -eu
cd "$(dirname "$0")/.."

platforms=${*:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
version=$(git describe --tags --always --dirty)
commit=$(git describe --tags --exact-match 2>/dev/null || git rev-parse HEAD)
pages=https://github.com/athena-go/athena/blob/$commit
when=$(git log -1 --format=%ct)
rm -rf dist
mkdir dist

for platform in $platforms; do
    os=${platform%/*} arch=${platform#*/}
    name=athena_${version}_${os}_${arch}
    mkdir "dist/$name"
    CGO_ENABLED=0 GOOS=$os GOARCH=$arch GOFLAGS= \
        go build -trimpath -buildvcs=true -ldflags='-s -w -buildid=' -o "dist/$name/athena" ./cmd/athena
    cp LICENSE examples/athena.yaml examples/systemd/athena.service "dist/$name/"
    for page in README.md CHANGELOG.md; do # whose relative links lead out of the archive
        sed -E "s,\]\(([^):#]+[)#]),]($pages/\1,g" "$page" >"dist/$name/$page"
    done
    GOOS=$os GOARCH=$arch scripts/licenses.sh "dist/$name/licenses"
    go run -C scripts/sbom . "$PWD/dist/$name/athena" "$version" >"dist/$name.cdx.json"
    (cd dist && tar --sort=name --mtime="@$when" --owner=0 --group=0 --numeric-owner \
        --mode=u+rw,go+r,go-w -cf - "$name" | gzip -9n >"$name.tar.gz")
    rm -r "dist/$name"
done
(cd dist && sha256sum -- *.tar.gz *.cdx.json >SHA256SUMS && cat SHA256SUMS)
