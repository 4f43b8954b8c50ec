#!/bin/sh
# Tags the current commit as a release: VERSION for the module at the root, and contrib/NAME/VERSION
# and examples/NAME/VERSION for those modules. It pushes nothing.
#
#   scripts/tag.sh v0.2.0
#
# All modules of this repository must require VERSION. Until they do, it changes their go.mod files
# and stops: commit those first.
set -eu
cd "$(dirname "$0")/.."

version=${1:?usage: scripts/tag.sh VERSION}
root=$(go list -m)
for mod in $(git ls-files '*/go.mod'); do
    for required in $(grep -oE "^(require )?[[:space:]]*$root[^ ]* v" "$mod" | grep -oE "$root[^ ]*"); do
        go mod edit -require="$required@$version" "$mod"
    done
done
if [ -n "$(git status --porcelain)" ]; then
    echo 'tag.sh: the working tree has changes; commit them and run this again:' >&2
    git status --short >&2
    exit 1
fi
for mod in $(git ls-files 'contrib/*/go.mod' 'examples/*/go.mod'); do
    git tag -m "$version" "$(dirname "$mod")/$version"
done
git tag -m "$version" "$version"
git tag --points-at HEAD
