#!/bin/sh
# Builds cmd/athena of an earlier commit, to run it beside this one.
# usage: scripts/previous.sh COMMIT FILE
set -eu
commit=$1 file=$2
cd "$(dirname "$0")/.."
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "previous: no commit $commit in this copy of the repository: fetch its whole history" >&2
  exit 3
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
git archive "$commit" | tar -x -C "$dir"
CGO_ENABLED=0 go build -C "$dir" -o "$file" ./cmd/athena
