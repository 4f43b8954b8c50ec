// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
)

// claimed returns evidence without faults of a run in which x1 claimed the address of n3, which had
// lost its store before.
func claimed() books {
	b := sound()
	b.note(evidence{Kind: kindLost, To: "n3"})
	b.claim(typo)
	b.claimView("joining", "")
	b.claimEnd(evidence{Cause: refusal})
	b.claimView("provisional", "n3")
	b.claimEnd(evidence{Cause: causeStopped, End: int64(time.Second)})
	return b
}

const refusal = "cluster: address is in use: 10.77.0.1:7000 reports that another process answers " +
	"at 10.77.0.3:7000: correct the address"

// note adds a line of the runner.
func (b books) note(e evidence) { b.add("runner", 1, e) }

// claim adds the start of a process that claims the address of n3.
func (b books) claim(kind string) {
	b.note(evidence{Kind: kindClaim, From: "x1", To: "n3", Cause: kind})
	b.add("x1", 20, evidence{Kind: kindStart, Size: 3, To: "n3"})
}

// claimView adds a view of x1.
func (b books) claimView(role, leader string) {
	b.add("x1", 20, evidence{Kind: kindView, View: &nodeView{
		StoreID: "of x1", Role: role, Leader: leader,
	}})
}

// claimEnd adds the end of a typo.
func (b books) claimEnd(e evidence) {
	e.Kind = kindEnd
	b.add("x1", 20, e)
}

// TestClaims adds one fault at a time to the evidence of a run with a typo.
func TestClaims(t *testing.T) {
	for _, k := range []struct {
		name, want string // beginning of the only fault
		plant      func(b books)
	}{
		{"nothing", "", func(books) {}},
		{"authority", "claims: x1 (run 20), which listens elsewhere, had authority", func(b books) {
			b.add("x1", 20, evidence{Kind: kindHold, Token: 9, Begin: 1, End: 2})
		}},
		{"a leader", "claims: x1 (run 20), which listens elsewhere, is leader", func(b books) {
			b.claimView("leader", "n3")
		}},
		{"a follower", "claims: x1 (run 20), which listens elsewhere, is follower", func(b books) {
			b.claimView("follower", "n2")
		}},
		{"a view with authority", "claims: x1 (run 20), which listens elsewhere, is joining",
			func(b books) {
				b.claimView("joining", "n2")
				b.lastView("x1").Quorate = true
			}},
		{"another end", "claims: x1 (run 20), which listens elsewhere, ended with: why", func(b books) {
			b.claimEnd(evidence{Cause: "why"})
		}},
		{"the port is in use", "claims: x1 (run 20), which listens elsewhere, ended with: ",
			func(b books) { b.claimEnd(evidence{Cause: cluster.ErrAddressInUse.Error()}) }},
		{"a place", "claims: state 3.1 gives the place of n3 to x1 (run 20)", func(b books) {
			b.note(evidence{Kind: kindLost, To: "n3"})
			b.view("n1", 3, 1, "n2", "n1", "n2", "n3'")
			b.lastView("n1").Members[2].StoreID = "of x1"
		}},
		{"another store", "claims: the states show 2 stores of n2, which lost 0", func(b books) {
			b.view("n1", 3, 1, "n2", "n1", "n2'", "n3'")
		}},
		{"a vote lost", "claims: the newest state 3.1 has 2 voters, want 3", func(b books) {
			b.view("n1", 3, 1, "n2", "n1", "n2", "n3'")
			b.lastView("n1").Members[2].Voter = false
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			b := claimed()
			k.plant(b)
			f := b.audit(t)
			starts := func(text string) bool { return strings.HasPrefix(text, k.want) }
			if k.want == "" {
				if err := f.formVerdict(); err != nil || f.claims.refused != 1 || f.claims.stopped != 1 {
					t.Errorf("%v, %d refused, %d stopped, want nil, 1 and 1", err, f.claims.refused,
						f.claims.stopped)
				}
			} else if len(f.faults) != 1 || !starts(f.faults[0]) {
				t.Errorf("faults %q, want one that starts with %q", f.faults, k.want)
			}
		})
	}
}

// TestIntruder checks that it is a fault if an intruder raises the version, and that an intruder
// that reached no node proves nothing.
func TestIntruder(t *testing.T) {
	for _, k := range []struct {
		name, want string
		reached    uint64
		version    uint64
	}{
		{"nothing", "", 1, 4},
		{"raised", "claims: version 204 follows version 3: an intruder raised it", 1, 204},
		{"not reached", "no intruder reached a node", 0, 4},
	} {
		b := claimed()
		b.claim(intruder)
		b.add("x1", 20, evidence{Kind: kindSpoke, First: k.reached, Last: 100})
		b.view("n1", k.version, 0, "n1", "n1", "n2", "n3'")
		err := b.audit(t).formVerdict()
		if k.want == "" && err != nil ||
			k.want != "" && (err == nil || !strings.Contains(err.Error(), k.want)) {
			t.Errorf("%s: %v, want %q", k.name, err, k.want)
		}
	}
}

// TestRefusedInTime checks that each typo must be refused in time in the second cluster, unless a
// process stalled.
func TestRefusedInTime(t *testing.T) {
	for _, k := range []struct {
		name string
		long time.Duration
		want bool
		stop int64 // when a process stalled; 0 for never
	}{
		{"in time", refusedBound, false, 0},
		{"too late", refusedBound + 1, true, 0},
		{"too late, with a stall", refusedBound + 1, false, 1000},
		{"too late, after a stall", refusedBound + 1, true, 50},
	} {
		first, second := sound(), steady()
		first.view("n1", 3, 1, "n2", "n1", "n2", "n3'")
		first.lastView("n1").Cluster = "aa"
		second.claim(typo)
		second.claimView("joining", "")
		second.claimEnd(evidence{Cause: causeStopped, Begin: 100, End: 100 + int64(k.long)})
		if k.stop > 0 {
			second.add("n2", 2, evidence{Kind: kindStall, Begin: k.stop, End: k.stop + 10})
		}
		f, err := auditFolder(folderOfTwo(t, first, second))
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(f.faults, func(text string) bool {
			return strings.HasPrefix(text, "other cluster: x1 (run 20), which listens elsewhere, was not")
		})
		if found != k.want || len(f.faults) > 0 && !k.want {
			t.Errorf("%s: faults %q, want one: %v", k.name, f.faults, k.want)
		}
	}
}

// TestClaimEvidenceMissing checks that the evidence of a process that the runner started is
// required.
func TestClaimEvidenceMissing(t *testing.T) {
	dir := claimed().folder(t)
	path := filepath.Join(dir, "x1.jsonl")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err := auditFolder(dir)
	if want := "evidence missing: " + path; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestEndsDespiteClaims checks before which actions all members must be active.
func TestEndsDespiteClaims(t *testing.T) {
	end, other := action{claim: true}, action{}
	for _, k := range []struct {
		left []action
		want bool
	}{
		{[]action{end}, true}, {[]action{end, end}, true}, {[]action{other}, false},
		{[]action{other, end}, false}, {[]action{end, other}, false},
	} {
		if got := endsDespiteClaims(k.left); got != k.want {
			t.Errorf("%d actions: got %v, want %v", len(k.left), got, k.want)
		}
	}
}
