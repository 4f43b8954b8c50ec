#!/bin/sh
# Prints the size of Athena for users and readers: packages, names, and the lines of each room. make
# check runs it; the limits are in test/budgets.txt.
set -eu
cd "$(dirname "$0")/.."
go test ./test -run '^TestFigures$' -count=1 -v | sed -n 's/^ *figures_\(count_\)*test.go:[0-9]*: //p'
