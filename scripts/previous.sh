#!/bin/sh
# Builds cmd/athena of an earlier commit, to run it beside this one. With PACKAGE, it builds that
# package of this tree instead, with the library of the earlier commit and the tag "previous".
# COMMIT previous is the release before, which test/previous.txt names.
# usage: scripts/previous.sh COMMIT FILE [PACKAGE]
set -eu
commit=$1 file=$2 package=${3:-}
cd "$(dirname "$0")/.."
[ "$commit" != previous ] || commit=$(grep -v '^#' test/previous.txt)
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "previous: no commit $commit in this copy of the repository: fetch its whole history" >&2
  exit 3
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
git archive "$commit" | tar -x -C "$dir"
if [ "$package" ]; then
  rm -rf "${dir:?}/$package"
  cp -R "$package" "$dir/$package"
fi
CGO_ENABLED=0 go build -C "$dir" ${package:+-tags previous} -o "$file" "./${package:-cmd/athena}"
