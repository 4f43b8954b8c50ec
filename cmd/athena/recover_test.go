// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"

	"github.com/athena-go/athena/paxos"
)

// TestVersionAbove checks that --tokens-above takes a version and a fencing token, whose version it
// returns, and refuses every other number.
func TestVersionAbove(t *testing.T) {
	const unit = 1_000_000_000_000
	for given, want := range map[uint64]uint64{
		0: 0, 7: 7, paxos.MaxFloor: paxos.MaxFloor,
		unit: 1, 7 * unit: 7, 7*unit + 17: 7, 8*unit - 1: 7,
		paxos.MaxFloor*unit + unit - 1: paxos.MaxFloor,
	} {
		if got, err := versionAbove(given); err != nil || got != want {
			t.Errorf("%d: got %d, %v; want %d", given, got, err, want)
		}
	}
	for _, given := range []uint64{
		paxos.MaxFloor + 1, unit - 1, (paxos.MaxFloor + 1) * unit, math.MaxInt64, math.MaxInt64 + 1,
		math.MaxUint64,
	} {
		if got, err := versionAbove(given); err == nil {
			t.Errorf("%d: got %d, want an error", given, got)
		}
	}
}
