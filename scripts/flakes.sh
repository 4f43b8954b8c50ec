#!/bin/sh
# Runs every test package, or those of ONLY, RUNS times (20 by default) beside a load of LOAD busy
# processes (4 by default), and lists each test that failed with the number of its failures. The
# output of failed runs is kept in results/flakes.
set -eu
cd "$(dirname "$0")/.."

go=${GO:-go} runs=${RUNS:-20} load=${LOAD:-4} out=results/flakes
mkdir -p "$out"
rm -f "$out"/*
trap 'kill $busy 2>/dev/null || :' EXIT
trap 'exit 1' INT TERM
busy=
while [ "$load" -gt 0 ]; do
    (while :; do :; done) &
    busy="$busy $!" load=$((load - 1))
done
failed=0
for package in ${ONLY:-$("$go" list ./...)}; do
    name=$(echo "$package" | tr / _) run=1
    while [ "$run" -le "$runs" ]; do
        log=$out/$name.$run
        if "$go" test -short -count=1 -shuffle=on -parallel=8 -timeout="${TIMEOUT:-30m}" \
            "$package" >"$log" 2>&1; then
            rm "$log"
        else
            failed=1
        fi
        run=$((run + 1))
    done
    grep -hoE '^ *--- FAIL: [^ ]+|^panic: [^[:digit:]]*|^FAIL.*(build|setup) failed.*' "$out/$name".* 2>/dev/null |
        sort | uniq -c | sed "s|^|$package|" || :
done
exit "$failed"
