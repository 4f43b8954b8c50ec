#!/bin/sh
# Copies the licences of Go and of every module that bin/athena links to DIR/PATH_OF_THE_MODULE, for
# GOOS and GOARCH. It fails if a module has none.
#
#   scripts/licenses.sh DIR
set -eu
dir=${1:?usage: scripts/licenses.sh DIR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
cd "$(dirname "$0")/.."

# copy_licenses FOLDER PATH copies the files of one folder, and fails if there are none.
copy_licenses() {
    files=$(find "$1" -maxdepth 1 -type f \
        \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'patents*' \) \
        ! -name '*.go')
    [ -n "$files" ] || return 1
    mkdir -p "$dir/$2"
    echo "$files" | while read -r file; do install -m 0644 "$file" "$dir/$2/"; done
}

modules=$(go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}' ./cmd/athena)
copy_licenses "$(go env GOROOT)" go
echo "$modules" | sort -u | while read -r path folder; do
    copy_licenses "$folder" "$path" || { echo "licenses.sh: $path has no licence" >&2; exit 1; }
done
