// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"testing"
	"time"
)

// TestWitness kills each of two hosts and a witness once, without and with the return of the
// preferred host. The full run is "make witness".
func TestWitness(t *testing.T) {
	for _, back := range []time.Duration{0, 2 * time.Second} {
		o := floodOptions(t)
		o.nodes, o.witness, o.back, o.length = witnessNodes, true, back, time.Millisecond
		o.config.LeaderTimeout = 2 * time.Second
		var out bytes.Buffer
		if err := runWitness(t.Context(), o, &out); err != nil {
			t.Fatalf("return after %v: %v\n%s%s", back, err, &out, logs(o.out))
		}
		t.Logf("%s", &out)
	}
}

// TestCheckLeaders plants a witness that leads and a leader that changes once more than expected.
func TestCheckLeaders(t *testing.T) {
	led := func(node int, token uint64) hold {
		return hold{owner{node: nodeName(node)}, token, int64(10 * token), int64(10*token + 5)}
	}
	sound := []hold{led(preferredNode, 1), led(secondNode, 2), led(preferredNode, 3)}
	if err := checkLeaders(sound, 0, 2); err != nil {
		t.Errorf("two changes: %v", err)
	}
	if err := checkLeaders(sound, 0, 1); err == nil {
		t.Error("a change that was not expected was not found")
	}
	if err := checkLeaders([]hold{led(preferredNode, 1), led(witnessNode, 2)}, 0, 1); err == nil {
		t.Error("a witness that led was not found")
	}
}
