#!/bin/sh
# Checks the specification in spec/: its types, random runs of it, drawn histories, histories of
# real processes, and planted bugs. It installs Quint first if it is missing. HISTORIES is the
# number of drawn histories of each size, RUNS the number of chaos runs, and SEED the first seed of
# both. Each part prints its time, and the summary at the end names the parts that failed or were
# skipped.
set -u
cd "$(dirname "$0")/.."
go=${GO:-go}
quint=bin/quint
cli=$quint/node_modules/@informalsystems/quint/dist/src/cli.js
: "${HISTORIES:=500}" "${RUNS:=10}" "${SEED:=1}"
if [ ! -f $cli ] && ! scripts/quint.sh; then
  echo 'spec: skipped: Quint cannot be installed (scripts/quint.sh)'
  exit
fi
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
failed=0

# part NAME COMMAND... runs a part. Status 3 means that this machine cannot run it.
part() {
  name=$1
  shift
  echo "== $name"
  began=$(date +%s)
  "$@" && verdict=ok
  case $? in
  0) ;;
  3) verdict=skipped ;;
  *) verdict=FAILED failed=1 ;;
  esac
  echo "$name: $verdict, $(($(date +%s) - began)) s" | tee -a "$temp/summary"
}

types() {
  # Both import athena.qnt, and ends.qnt imports sim.qnt.
  for f in ends trace; do node $cli typecheck spec/$f.qnt || return 1; done
}

random() {
  node $cli run spec/sim.qnt --main=sim --backend=typescript --invariants I1 I2 I3 I4 I10 \
    --max-samples=100 --max-steps=250 --verbosity=1
}

ends() {
  node $cli test spec/ends.qnt --main=ends --backend=typescript --max-samples=1
}

drawn() {
  "$temp/validate" -quint $quint -runs "$HISTORIES" -steps 700 -size "$1" -seed "$SEED"
}

# processes records both clusters of each chaos run, and then validates all of them. Every second
# run uses TLS on TCP.
processes() {
  for i in $(seq "$SEED" $((SEED + RUNS - 1))); do
    transport=quic
    [ $((i % 2)) = 0 ] && transport=tls
    "$temp/chaos" run -seed "$i" -for 20s -n 3 -transport $transport -athena "$temp/athena" \
      -out "$temp/out$i" -history "$temp/run$i" >"$temp/log" || {
      status=$?
      tail -20 "$temp/log"
      return $status
    }
  done
  "$temp/validate" -quint $quint -steps 0 "$temp"/run* "$temp"/run*/other
}

planted() {
  $go test ./test/mutants -count=1 -v -timeout 4h -run TestSpecificationRejects \
    -quint "$PWD/$quint" >"$temp/planted"
  status=$?
  grep -E '^ +spec_test.go|^(ok|FAIL)' "$temp/planted"
  return $status
}

$go build -o "$temp/validate" ./spec/validate &&
  $go build -o "$temp/athena" ./cmd/athena &&
  $go build -o "$temp/chaos" ./test/chaos || exit 1
part 'types' types
part 'random runs of the specification' random
part 'rules of an announced end' ends
part "$HISTORIES drawn histories of three" drawn 3
part "$HISTORIES drawn histories of five" drawn 5
part "$RUNS runs of real processes, two clusters each" processes
part 'planted bugs' planted
echo '== summary'
cat "$temp/summary"
exit $failed
