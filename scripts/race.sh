#!/bin/sh
# Runs the tests under the race detector, except those of the simulator, which has one goroutine, and
# those of programs and modules that are built without the detector.
#
# A race fails at once. Under the detector tests take up to ten times as long, and in virtual time the
# detector itself can crash (golang/go#78156). So a package that fails without a race is tested again.
# After three failures this script fails or, if the detector crashed, skips the package by name.
set -eu
cd "$(dirname "$0")/.."

go=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export CGO_ENABLED=1 GORACE=halt_on_error=1

# test_packages tests packages and sets failed to those that failed.
test_packages() {
    "$go" test -race -shuffle=on -timeout=30m -skip='^Test(Process|AConsumer|Modules)' "$@" \
        >"$log" 2>&1 && code= || code=$?
    cat "$log"
    failed=$(sed -n 's/^FAIL[[:space:]]\{1,\}\([^[:space:]]\{1,\}\).*/\1/p' "$log")
    if grep -qE 'DATA RACE|\[(build|setup) failed\]' "$log"; then
        exit 1
    elif [ "$code" ] && [ -z "$failed" ]; then
        exit 1
    fi
}

test_packages $("$go" list ./... | grep -v '/internal/sim$')
for package in $failed; do
    for try in 2 3; do
        test_packages "$package"
        [ "$failed" ] || break
    done
    if [ "$failed" ] && grep -qE -e '^ *--- FAIL|panic:|fatal error:' "$log"; then
        exit 1
    elif [ "$failed" ]; then
        echo "race: $package skipped: the race detector crashed three times"
    fi
done
