// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"testing"
	"time"
)

// TestDiskFaults checks that a frozen disk lets no write end until it is thawed, and that thawing a
// second time does nothing.
func TestDiskFaults(t *testing.T) {
	mustBeAble(t)
	w, err := newWorld(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.removeAll(); err != nil {
			t.Error(err)
		}
	}()
	if w.unfrozen != nil {
		t.Skip("no file system of this machine can be frozen: ", w.unfrozen)
	}
	r := &runner{world: w}
	actions := r.stallDisk(fault{Kind: frozenDisk, For: time.Second}, 0)
	for _, a := range append(actions, actions[1]) {
		if err := a.do(); err != nil {
			t.Fatal(err)
		}
		if a.at != 0 {
			continue
		}
		written := make(chan error, 1)
		go func() { written <- os.WriteFile(r.ballastFile(0), []byte("x"), 0o600) }()
		select {
		case err := <-written:
			t.Errorf("on a frozen disk a write ended: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		defer func() {
			if err := <-written; err != nil {
				t.Errorf("after it was thawed: %v", err)
			}
		}()
	}
	if n := len(r.stallDisk(fault{Kind: slowDisk, For: time.Second}, 0)); n != 2*7 {
		t.Errorf("a slow disk: %d actions, want 7 pieces frozen and thawed", n)
	}
}
