// SPDX-License-Identifier: Apache-2.0

package election

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// TestJobs checks that Jobs reads jobs from records and ignores other records.
func TestJobs(t *testing.T) {
	var table member.Records
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
		{Key: "latch/a/host/10.0.0.1"},
	} {
		r.Token = member.Token{Version: 1, Revision: uint64(i)}
		table = table.Put(r)
	}
	want := []JobInfo{
		{Name: "a!"},
		{
			Name: "a", Leader: leader.Holder{ID: "n1", Token: member.Token{Version: 1}},
			Disabled: []string{"10.0.0.1:1", "n2"}, Hosts: []string{"10.0.0.1"},
			Locks: []HeldLock{
				{Name: "x/y", Holder: leader.Holder{ID: "n3", Token: member.Token{Version: 1, Revision: 3}}},
			},
		},
		{Name: "b"},
	}
	if diff := cmp.Diff(want, Jobs(slices.Collect(table.All()))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestJobKeys checks that Jobs reads the keys that JobKey and LockKey return, and that an invalid
// name has no key.
func TestJobKeys(t *testing.T) {
	var table member.Records
	for _, job := range []string{"a", "b c"} {
		lead, errLead := JobKey(job)
		held, errHeld := holding.LockKey(job, "d/e")
		if errLead != nil || errHeld != nil {
			t.Fatal(errLead, errHeld)
		}
		table = table.Put(member.Record{Key: lead, Value: []byte("n1")})
		table = table.Put(member.Record{Key: held, Value: []byte("n2")})
	}
	var got []string
	for _, i := range Jobs(slices.Collect(table.All())) {
		got = append(got, i.Name, i.Leader.ID, i.Locks[0].Name, i.Locks[0].Holder.ID)
	}
	if want := []string{"a", "n1", "d/e", "n2", "b c", "n1", "d/e", "n2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, job := range []string{"", "a/b", "\n", string(make([]byte, 300))} {
		if _, err := JobKey(job); err == nil {
			t.Errorf("a job %q has a key", job)
		}
		if _, err := holding.LockKey(job, "x"); err == nil {
			t.Errorf("a lock of a job %q has a key", job)
		}
	}
	if _, err := holding.LockKey("a", ""); err == nil {
		t.Error("a lock without a name has a key")
	}
}
