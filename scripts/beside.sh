#!/bin/sh
# Runs shell commands side by side. The first one prints as it runs. Of the others, at most JOBS (2)
# run at a time, and each prints when it ends. It fails if any of them fails, and names those.
#
#   JOBS=n scripts/beside.sh COMMAND ...
set -eu
dir=$(mktemp -d)
export dir
trap 'rm -rf "$dir"' EXIT
trap 'trap "" TERM; kill 0; exit 1' INT TERM # a shell lets its background ignore SIGINT

first=$1
shift
# shellcheck disable=SC2016 # a program of another shell
[ $# = 0 ] || printf '%s\0' "$@" | xargs -0 -n 1 -P "${JOBS:-2}" sh -c '
    log=$(mktemp "$dir/XXXXXX")
    sh -c "$1" >"$log" 2>&1 || echo "$1" >"$log.failed"
    until mkdir "$dir/printing" 2>/dev/null; do sleep 0.1; done
    printf "%s\n" "$1"
    cat "$log"
    rmdir "$dir/printing"' beside &
sh -c "$first" || echo "$first" >"$dir/first.failed"
wait
if cat "$dir"/*.failed >"$dir/failed" 2>/dev/null; then
    sed 's/^/failed: /' "$dir/failed" >&2
    exit 1
fi
