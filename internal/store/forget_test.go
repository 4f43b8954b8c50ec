// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// TestForgetMakesANewMember checks that the new member has the same cluster, size and
// address, and that a copy of the old state is kept.
func TestForgetMakesANewMember(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	load(t, s)
	before := typical()
	save(t, s, before)
	raw, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		t.Fatal(err)
	}
	key, err := s.ResetKey()
	if err != nil {
		t.Fatal(err)
	}

	kept, err := s.Forget(0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(kept); err != nil || !bytes.Equal(got, raw) {
		t.Errorf("kept: got %d bytes and %v, want the earlier %d", len(got), err, len(raw))
	}
	after, known, err := s.Load()
	if err != nil || !known {
		t.Fatalf("got known %v, %v", known, err)
	}
	if after.StoreID == before.StoreID || after.StoreID.IsZero() {
		t.Errorf("got store id %s, want another one than %s", after.StoreID, before.StoreID)
	}
	if after.Key == before.Key || after.Key.StoreID() != after.StoreID {
		t.Errorf("got the key of store %s, want another one than that of %s, of store %s",
			after.Key.StoreID(), before.StoreID, after.StoreID)
	}
	want := before
	want.Key = after.Key
	want.Durable = paxos.Durable{StoreID: after.StoreID, Incarnation: before.Incarnation + 1}
	want.Floor = before.HighestToken()
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if again, err := s.ResetKey(); err != nil || again != key {
		t.Errorf("got reset key %x, %v; want the same as before", again, err)
	}
	if _, err := s.Forget(0); !errors.Is(err, ErrUnused) {
		t.Errorf("a second time: got %v, want ErrUnused", err)
	}
}

// TestForgetRemembersTheHighestToken checks that each version that may have had a leader raises the
// floor of the new member, as does the token of the caller, and that Forget never lowers it.
func TestForgetRemembersTheHighestToken(t *testing.T) {
	held := member.State{Number: member.Number{Version: 4, Revision: 2}, Cluster: member.ClusterID{1}}
	for name, tc := range map[string]struct {
		above uint64
		used  paxos.Acceptor
		want  uint64
	}{
		"held":     {0, paxos.Acceptor{Held: held}, 4},
		"promised": {4, paxos.Acceptor{Held: held, Promised: paxos.ID{Version: 6}}, 6},
		"accepted": {0, paxos.Acceptor{Accepted: paxos.Accepted{ID: paxos.ID{Version: 5}}}, 5},
		"given":    {17, paxos.Acceptor{Held: held}, 17},
		"floor":    {0, paxos.Acceptor{Held: held, Floor: 9}, 9},
		"unused":   {paxos.MaxFloor, paxos.Acceptor{}, paxos.MaxFloor},
	} {
		c := typical()
		c.Acceptor = tc.used
		s := open(t, saved(t, c))
		if _, err := s.Forget(tc.above); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _, err := s.Load(); err != nil || got.Floor != tc.want || got.HighestToken() != tc.want {
			t.Errorf("%s: got floor %d, highest token %d, %v; want %d",
				name, got.Floor, got.HighestToken(), err, tc.want)
		}
		if _, err := s.Forget(tc.want); !errors.Is(err, ErrUnused) {
			t.Errorf("%s: a second time: got %v, want ErrUnused", name, err)
		}
		if _, err := s.Forget(paxos.MaxFloor + 1); !errors.Is(err, ErrTooHigh) {
			t.Errorf("%s: got %v, want ErrTooHigh", name, err)
		}
	}
}

// TestForgetChangesNothing checks Forget if the state cannot be read or a different copy
// exists.
func TestForgetChangesNothing(t *testing.T) {
	if _, err := open(t, t.TempDir()).Forget(0); !errors.Is(err, ErrUnused) {
		t.Errorf("an empty store: got %v, want ErrUnused", err)
	}

	dir := t.TempDir()
	state := filepath.Join(dir, stateName)
	if err := os.WriteFile(state, []byte("rubbish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir).Forget(0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a corrupt store: got %v, want ErrCorrupt", err)
	}
	if got, _ := os.ReadFile(state); string(got) != "rubbish\n" {
		t.Errorf("a corrupt store: it holds %q now", got)
	}

	dir = t.TempDir()
	s := open(t, dir)
	load(t, s)
	before := typical()
	save(t, s, before)
	kept, err := s.Forget(0)
	if err != nil {
		t.Fatal(err)
	}
	save(t, s, before)
	if err := os.WriteFile(kept, []byte("another state\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Forget(0); err == nil {
		t.Errorf("%s was replaced", kept)
	}
	if got, _, err := s.Load(); err != nil || !cmp.Equal(got, before) {
		t.Errorf("got %v, %v; want the state as it was", got, err)
	}
}

// TestForgetGoesOnWhereItWasCutOff checks Forget after a crash between the copy and the
// replacement.
func TestForgetGoesOnWhereItWasCutOff(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	load(t, s)
	save(t, s, typical())
	state := filepath.Join(dir, stateName)
	before, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Forget(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(state, before, 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := s.Forget(0)
	if err != nil || second != first {
		t.Fatalf("got %s, %v; want %s", second, err, first)
	}
	if c, _, err := s.Load(); err != nil || !c.IsUnused() {
		t.Errorf("got %v, %v; want a store that is not used", c, err)
	}
}

// TestForgetCutOffInItsCopy checks that the next OpenFile removes an unfinished copy.
func TestForgetCutOffInItsCopy(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	load(t, s)
	save(t, s, typical())
	kept, err := s.Forget(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := names(t, dir)
	half := filepath.Join(dir, "."+filepath.Base(kept)+"71234") // the temporary name of the copy
	if err := os.WriteFile(half, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != len(want)+1 {
		t.Fatalf("files %q, want one more than %q", got, want)
	}
	open(t, dir)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

// TestForgetWithoutANode checks that an unused store with a floor needs no size and no address,
// that Forget raises its floor, and that no other store can do without them.
func TestForgetWithoutANode(t *testing.T) {
	c := Content{Origin: Origin{Cluster: "orders"}, Key: typical().Key, Durable: paxos.Durable{
		StoreID: typical().StoreID, Acceptor: paxos.Acceptor{Floor: 7},
	}}
	s := open(t, saved(t, c))
	if _, err := s.Forget(7); !errors.Is(err, ErrUnused) {
		t.Errorf("the same token: got %v, want ErrUnused", err)
	}
	if _, err := s.Forget(9); err != nil {
		t.Errorf("a higher token: %v", err)
	}
	got, _, err := s.Load()
	if err != nil || got.Floor != 9 || got.Origin != c.Origin {
		t.Errorf("got floor %d of %+v, %v; want 9 of %+v", got.Floor, got.Origin, err, c.Origin)
	}
	used := typical().Acceptor
	used.Floor = 7
	for _, other := range []paxos.Acceptor{used, {}} {
		c.Acceptor = other
		if err := s.Save(c); err == nil {
			t.Errorf("%+v was saved without a size and an address", other)
		}
	}
	c.Acceptor = paxos.Acceptor{Floor: 7}
	for _, origin := range []Origin{{}, {Cluster: "orders", Size: -1}} {
		c.Origin = origin
		if err := s.Save(c); err == nil {
			t.Errorf("%+v was saved", origin)
		}
	}
}

// TestForgetByRootKeepsTheOwner checks that the user of the node can still read the files.
func TestForgetByRootKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can do what belongs to others: run this test as root too")
	}
	const user = 65534
	dir := t.TempDir()
	s := open(t, dir)
	load(t, s)
	save(t, s, typical())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, stateName)} {
		if err := os.Chown(path, user, user); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	kept, err := s.Forget(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{kept, filepath.Join(dir, stateName), filepath.Join(dir, lockName)} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != user {
			t.Errorf("%s belongs to user %d, want %d, the owner of the directory", path, got, user)
		}
	}
}
