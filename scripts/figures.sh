#!/bin/sh
# Prints the size of Athena for users and readers: packages, names, lines and files. make check runs
# it; the limits are in test/figures_test.go.
set -eu
cd "$(dirname "$0")/.."
go test ./test -run '^TestFigures$' -count=1 -v | sed -n 's/^ *figures_test.go:[0-9]*: //p'
