// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
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

// TestRecoverOfAnUnusedStore checks that recover asks for a token if a node has started with an
// empty directory, perhaps after a loss: without one, it could found a cluster at version 1.
func TestRecoverOfAnUnusedStore(t *testing.T) {
	for floor, want := range map[uint64]string{0: "give --tokens-above", 7: "can start as it is"} {
		dir := t.TempDir()
		s, err := store.OpenFile(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Load(); err != nil {
			t.Fatal(err)
		}
		used := store.Content{Key: storekey.New(), Origin: store.Origin{
			Cluster: "orders", Size: 3, Address: member.Address{Host: "n1", Port: 7000}}}
		used.Floor, used.StoreID = floor, used.Key.StoreID()
		if err := errors.Join(s.Save(used), s.Close()); err != nil {
			t.Fatal(err)
		}
		err = forgetStore(io.Discard, dir, "", 0)
		if !errors.Is(err, store.ErrUnused) || !strings.Contains(err.Error(), want) {
			t.Errorf("floor %d: got %v, want ErrUnused with %q", floor, err, want)
		}
	}
}
