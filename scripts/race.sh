#!/bin/sh
# Runs the tests under the race detector, except those of the simulator, which has one goroutine, and
# those of programs and modules that are built without the detector.
#
# In virtual time the detector itself can crash (golang/go#78156). Then it names neither a race nor a
# test, and the package is tested again. After three crashes it is skipped by name.
set -eu
cd "$(dirname "$0")/.."

go=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export CGO_ENABLED=1 GORACE=halt_on_error=1

# test_packages tests packages. It exits if one fails otherwise than by a crash of the detector.
test_packages() {
    "$go" test -race -shuffle=on -timeout=30m -skip='^Test(Process|AConsumer|Modules)' "$@" \
        >"$log" 2>&1 && failed= || failed=$?
    cat "$log"
    if grep -qE -e 'DATA RACE|^ *--- FAIL|panic:|fatal error:|\[(build|setup) failed\]' "$log"; then
        exit 1
    fi
    crashed=$(sed -n 's/^FAIL[[:space:]]\{1,\}\([^[:space:]]\{1,\}\).*/\1/p' "$log")
    if [ "$failed" ] && [ -z "$crashed" ]; then
        exit 1
    fi
}

test_packages $("$go" list ./... | grep -v '/internal/sim$')
for package in $crashed; do
    for try in 2 3; do
        test_packages "$package"
        [ "$crashed" ] || break
    done
    if [ "$crashed" ]; then
        echo "race: $package skipped: the race detector crashed three times"
    fi
done
