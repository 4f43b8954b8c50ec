#!/bin/sh
# Runs the tests under the race detector, except those of the simulator and of the pure packages,
# which have one goroutine, and those of programs and modules that are built without the detector. Of
# package test only the tests of whole nodes are left. DEPTH is a flag of the tests. With -short, as by
# default, the tests of $long do not run: they simulate minutes or hours of nodes that other tests run
# as well, and under the detector they last as long as all others together.
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

depth=${DEPTH--short}
long='^Test(Scenarios|StackLossRemovesNoMember|Intruders|IdleDiskThatHangs|ShardsUnderFaults)$'
[ "$depth" != -short ] || depth="-short -skip=$long"

# The output of a package precedes the line with its result.
# shellcheck disable=SC2016 # a program of awk
judge='
	/^(SIGSEGV: segmentation violation|ThreadSanitizer: CHECK failed)/ { crashed = 1 }
	/^ *--- FAIL|^panic:|^fatal error:|DATA RACE/ { failed = 1 }
	/^(ok|FAIL|[?])[ \t]+[^ \t]/ {
		if ($1 == "FAIL" && crashed && !failed) print $2
		else if ($1 == "FAIL") exit 1
		crashed = failed = 0
	}'

# test_packages PATTERN PACKAGE... runs tests and sets crashed to the packages whose detector
# crashed.
test_packages() {
    pattern=$1
    shift
    # shellcheck disable=SC2086 # flags
    "$go" test -race $depth -vet=off -shuffle=on -timeout=30m -run="$pattern" "$@" \
        >"$log" 2>&1 && code= || code=$?
    cat "$log"
    crashed=$(awk "$judge" "$log") || exit 1
    if [ "$code" ] && [ -z "$crashed" ]; then
        exit 1
    fi
}

# pattern PACKAGE prints which tests of a package to run.
pattern() {
    case $1 in */athena/test) echo '^Test(Stack|Diagram|Scenarios$)' ;; *) echo . ;; esac
}

packages=$("$go" list ./... |
    grep -vE '/(internal/(message|lowest)|test/sim(/.*)?|member|paxos|statemachine)$')
all=
for package in $(echo "$packages" | grep '/athena/test$' || :); do
    test_packages "$(pattern "$package")" "$package"
    all=$crashed
done
test_packages . $(echo "$packages" | grep -v '/athena/test$')
for package in $all $crashed; do
    for try in 2 3; do
        echo "race: the detector crashed in $package: run $try of 3"
        test_packages "$(pattern "$package")" "$package"
        [ "$crashed" ] || break
    done
    if [ "$crashed" ]; then
        echo "race: $package skipped: the race detector crashed three times"
    fi
done
