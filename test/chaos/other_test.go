// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/athena-go/athena/cluster"
)

// steady returns the evidence of a second cluster without faults: one leader with one token.
func steady() books {
	b := begun()
	b.hold("n2", 2, 1, 100, 300)
	b.hold("n2", 2, 1, 300, 800)
	b.write("n2", 2, 1, accepted)
	b.events("n1", "n2", 2, 1, 10)
	b.view("n1", 1, 0, "n2", "n1", "n2", "n3")
	b.lastView("n1").Cluster = "bb"
	return b
}

// folderOfTwo writes the files that a run of two clusters leaves.
func folderOfTwo(t *testing.T, first, second books) string {
	t.Helper()
	dir := first.folder(t)
	journal := "77 " + fmt.Sprintf(journalStart, 3, 1, 2) + ", 5m0s, evidence in somewhere\n"
	if err := os.WriteFile(filepath.Join(dir, journalFile), []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(second.folder(t), filepath.Join(dir, otherDir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestOtherCluster adds one fault at a time to the evidence of the second cluster.
func TestOtherCluster(t *testing.T) {
	for _, k := range []struct {
		name, want string // beginning of the only fault, or the error text
		plant      func(b books)
	}{
		{"nothing", "", func(books) {}},
		{"another leader", "other cluster: token 2 of n3", func(b books) {
			b.hold("n3", 3, 2, 900, 950)
		}},
		{"the same leader, elected again", "other cluster: token 2 of n2", func(b books) {
			b.hold("n2", 2, 2, 900, 950)
		}},
		{"another leader, after its process stalled", "", func(b books) {
			b.add("n2", 2, evidence{Kind: kindStall, Begin: 790, End: 890})
			b.hold("n3", 3, 2, 900, 950)
		}},
		{"another leader, before a process stalled", "other cluster: token 2 of n3", func(b books) {
			b.hold("n3", 3, 2, 900, 950)
			b.add("n2", 2, evidence{Kind: kindStall, Begin: 920, End: 940})
		}},
		{"another leader, long after a process stalled", "other cluster: token 2 of n3",
			func(b books) {
				b.add("n2", 2, evidence{Kind: kindStall, Begin: 90, End: 95})
				b.hold("n2", 2, 1, 800, 3e9)
				b.hold("n3", 3, 2, 3e9+1, 4e9)
			}},
		{"two leaders simultaneously", "other cluster: I", func(b books) {
			b.hold("n3", 3, 1, 500, 600)
		}},
		{"the end of a node", "other cluster: a node stopped by itself: why", func(b books) {
			b.add("n3", 3, evidence{Kind: kindEnd, Cause: "why"})
		}},
		{"the same cluster", "I11: both clusters show states of cluster aa", func(b books) {
			b.lastView("n1").Cluster = "aa"
		}},
		{"no cluster shown", "no node showed its cluster id", func(b books) {
			b.lastView("n1").Cluster = ""
		}},
		{"no write", "other cluster: the register accepted no write", func(b books) {
			b[registerEvidence] = b[registerEvidence][:1]
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			first, second := sound(), steady()
			first.view("n1", 3, 1, "n2", "n1", "n2", "n3'")
			first.lastView("n1").Cluster = "aa"
			k.plant(second)
			f, err := auditFolder(folderOfTwo(t, first, second))
			if err != nil {
				t.Fatal(err)
			}
			err = f.formVerdict()
			if k.want == "" {
				if err != nil {
					t.Errorf("verdict %v, want none", err)
				}
				return
			}
			starts := func(text string) bool { return strings.HasPrefix(text, k.want) }
			if err == nil || !slices.ContainsFunc(slices.Concat(f.faults, f.lacks), starts) {
				t.Errorf("faults %q, lacks %q, want one that starts with %q", f.faults, f.lacks, k.want)
			}
		})
	}
}

// TestOneClusterID checks that it is a fault if one cluster shows a state of another one.
func TestOneClusterID(t *testing.T) {
	b := steady()
	b.view("n2", 1, 0, "n2", "n1", "n2", "n3")
	b.lastView("n2").Cluster = "aa"
	starts := func(text string) bool { return strings.HasPrefix(text, "I11: n2 (run 1) showed") }
	if got := b.audit(t).faults; !slices.ContainsFunc(got, starts) {
		t.Errorf("faults %q, want one of I11", got)
	}
}

// TestEndByTwoLeaders checks that it is a fault if a process stops because two leaders were chosen.
func TestEndByTwoLeaders(t *testing.T) {
	b := sound()
	cause := "node stopped: " + cluster.ErrSplitVersion.Error()
	b.add("n2", 2, evidence{Kind: kindEnd, Cause: cause})
	want := "I1: n2 (run 2) stopped: " + cause
	if got := b.audit(t).faults; !slices.Equal(got, []string{want}) {
		t.Errorf("faults %q, want %q", got, want)
	}
}

// TestOtherEvidenceMissing checks that the evidence of the second cluster is required.
func TestOtherEvidenceMissing(t *testing.T) {
	for _, name := range []string{"n2.jsonl", registerEvidence} {
		dir := folderOfTwo(t, sound(), steady())
		path := filepath.Join(dir, otherDir, name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		err := runCommand(t.Context(), []string{"check", dir})
		if err == nil || err.Error() != "evidence missing: "+path || reportFailure(err, io.Discard) != 1 {
			t.Errorf("without %s of the second cluster: %v, want that it is reported missing", name, err)
		}
	}
}

// TestSeedsOf checks that a wrong seed replaces the address of another node, and that the list is
// restored when the wrong seed is removed.
func TestSeedsOf(t *testing.T) {
	ps := &processes{seeds: []string{"a", "b", "c"}, wrongSeeds: map[int]string{2: "x"}}
	if got := ps.seedsOf(2); !slices.Equal(got, []string{"x", "b", "c"}) {
		t.Errorf("n3 with a wrong seed: %q, want x b c", got)
	}
	if got := ps.seedsOf(1); !slices.Equal(got, ps.seeds) {
		t.Errorf("n2: %q, want %q", got, ps.seeds)
	}
	delete(ps.wrongSeeds, 2)
	if got := ps.seedsOf(2); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("n3 without it: %q, want a b c", got)
	}
}
