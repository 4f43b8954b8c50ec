#!/bin/sh
# Runs the tests under the race detector, except those of the simulator, which has one goroutine, and
# those of programs and modules that are built without the detector.
#
# In virtual time the detector itself can crash (golang/go#78156). Only a package whose output has
# that crash and no failure is tested again. After three crashes this script skips the package by
# name.
set -eu
cd "$(dirname "$0")/.."

go=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export CGO_ENABLED=1 GORACE=halt_on_error=1

# The output of a package precedes the line with its result.
# shellcheck disable=SC2016 # a program of awk
judge='
	/^SIGSEGV: segmentation violation/ { crashed = 1 }
	/^ *--- FAIL|^panic:|^fatal error:|DATA RACE/ { failed = 1 }
	/^(ok|FAIL|[?])[ \t]+[^ \t]/ {
		if ($1 == "FAIL" && crashed && !failed) print $2
		else if ($1 == "FAIL") exit 1
		crashed = failed = 0
	}'

# test_packages tests packages and sets crashed to those whose detector crashed.
test_packages() {
    "$go" test -race -shuffle=on -timeout=30m -skip='^Test(Process|AConsumer|Modules)' "$@" \
        >"$log" 2>&1 && code= || code=$?
    cat "$log"
    crashed=$(awk "$judge" "$log") || exit 1
    if [ "$code" ] && [ -z "$crashed" ]; then
        exit 1
    fi
}

test_packages $("$go" list ./... | grep -v '/internal/sim$')
for package in $crashed; do
    for try in 2 3; do
        echo "race: the detector crashed in $package: run $try of 3"
        test_packages "$package"
        [ "$crashed" ] || break
    done
    if [ "$crashed" ]; then
        echo "race: $package skipped: the race detector crashed three times"
    fi
done
