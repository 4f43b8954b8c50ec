// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/member"
)

// TestJobs are read from records, whatever else is among these.
func TestJobs(t *testing.T) {
	var records member.Records
	for i, r := range []member.Record{
		{Key: "latch/a/leader", Value: []byte("n1")},
		{Key: "latch/a/disabled/10.0.0.1:1"},
		{Key: "latch/a/disabled/n2"},
		{Key: "latch/a/latch/x/y", Value: []byte("n3")},
		{Key: "latch/a/latch/z", Value: []byte("n3"), Revoked: true},
		{Key: "latch/a/leader/x", Value: []byte("n9")},
		{Key: "latch/a!/leader", Value: []byte("n2"), Revoked: true},
		{Key: "latch/b/other", Value: []byte("n1")},
		{Key: "latch//leader", Value: []byte("n1")},
		{Key: "latch/alone", Value: []byte("n1")},
		{Key: "other/a/leader", Value: []byte("n1")},
	} {
		r.Token = member.Token{Version: 1, Revision: uint64(i)}
		records.Put(r)
	}
	want := []Info{
		{Name: "a!"},
		{
			Name: "a", Leader: Holder{"n1", member.Token{Version: 1}},
			Disabled: []string{"10.0.0.1:1", "n2"},
			Latches:  []Latch{{"x/y", Holder{"n3", member.Token{Version: 1, Revision: 3}}}},
		},
		{Name: "b"},
	}
	if diff := cmp.Diff(want, Jobs(records)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestKeys are what Jobs reads, and none for what has no name.
func TestKeys(t *testing.T) {
	var records member.Records
	for _, job := range []string{"a", "b c"} {
		leader, errLeader := LeaderKey(job)
		held, errHeld := Key(job, "d/e")
		if errLeader != nil || errHeld != nil {
			t.Fatal(errLeader, errHeld)
		}
		records.Put(member.Record{Key: leader, Value: []byte("n1")})
		records.Put(member.Record{Key: held, Value: []byte("n2")})
	}
	var got []string
	for _, i := range Jobs(records) {
		got = append(got, i.Name, i.Leader.Member, i.Latches[0].Name, i.Latches[0].Holder.Member)
	}
	if want := []string{"a", "n1", "d/e", "n2", "b c", "n1", "d/e", "n2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, job := range []string{"", "a/b", "\n", string(make([]byte, 300))} {
		if _, err := LeaderKey(job); err == nil {
			t.Errorf("a job %q has a key", job)
		}
		if _, err := Key(job, "x"); err == nil {
			t.Errorf("a latch of a job %q has a key", job)
		}
	}
	if _, err := Key("a", ""); err == nil {
		t.Error("a latch without a name has a key")
	}
}
