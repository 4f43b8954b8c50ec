// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// openOn opens the job "job" on the member of a store.
func openOn(t *testing.T, s record.Store) *Job {
	t.Helper()
	j, err := OpenJob(t.Context(), s, "job", JobOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// wantLeader waits for a minute, and checks which member leads.
func wantLeader(t *testing.T, j *Job, want string) {
	t.Helper()
	time.Sleep(time.Minute)
	if h, _ := j.Leader(); h.ID != want {
		t.Errorf("%q leads, want %q", h.ID, want)
	}
}

// TestHostIsDisabled checks that no member of a disabled host leads. This includes a member that
// joins later, and a member that alone has opened the job. Members of other hosts are not affected.
func TestHostIsDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		set := func(host string, on bool) {
			t.Helper()
			if err := EnableHost(t.Context(), table.Store("admin"), "job", host, on); err != nil {
				t.Fatal(err)
			}
		}
		first := openOn(t, table.Store("10.0.0.1:7000"))
		wantLeader(t, first, "10.0.0.1:7000")
		ended := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = first.WhileLeader(ctx, func(ctx context.Context, _ leader.Term) error {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil
			})
		}()
		synctest.Wait()
		set("10.0.0.1", false)
		set("10.0.0.1", false) // the second call has no effect
		if err := <-ended; !errors.Is(err, leader.ErrDisabled) {
			t.Errorf("the work ended with %v, want ErrDisabled", err)
		}
		wantLeader(t, first, "")
		later := openOn(t, table.Store("10.0.0.1:7001"))
		wantLeader(t, later, "")
		other := openOn(t, table.Store("10.0.0.12:7000"))
		wantLeader(t, other, "10.0.0.12:7000")

		if err := other.Enable(t.Context(), "10.0.0.12:7000", false); err != nil {
			t.Fatal(err)
		}
		set("10.0.0.12", false)
		set("10.0.0.12", true) // the member itself remains disabled
		wantLeader(t, other, "")
		if err := other.Enable(t.Context(), "10.0.0.1:7000", false); err != nil {
			t.Fatal(err)
		}
		set("10.0.0.1", true)
		wantLeader(t, other, "10.0.0.1:7001")
		records, err := table.Store("admin").List(t.Context(), JobPrefix)
		if all := Jobs(records); err != nil || len(all) != 1 || len(all[0].Hosts) != 0 ||
			!slices.Equal(all[0].Disabled, []string{"10.0.0.12:7000", "10.0.0.1:7000"}) {
			t.Errorf("jobs %+v, %v", all, err)
		}
		stop()
		<-done
		for _, j := range []*Job{first, later, other} {
			if err := j.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// hostless is a Store that does not list disabled hosts, like the old records of a slow member.
type hostless struct{ record.Store }

func (s hostless) List(ctx context.Context, prefix string) ([]member.Record, error) {
	records, err := s.Store.List(ctx, prefix)
	return slices.DeleteFunc(slices.Clone(records), func(r member.Record) bool {
		return strings.Contains(r.Key, "/host/")
	}), err
}

// TestHostIsCheckedByTheCommit checks that a member of a disabled host does not lead, even if the
// member has not seen the record of the host.
func TestHostIsCheckedByTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		if err := EnableHost(t.Context(), table.Store("admin"), "job", "::1", false); err != nil {
			t.Fatal(err)
		}
		j := openOn(t, hostless{table.Store("[::1]:7000")})
		wantLeader(t, j, "")
		if err := EnableHost(t.Context(), table.Store("admin"), "job", "::1", true); err != nil {
			t.Fatal(err)
		}
		wantLeader(t, j, "[::1]:7000")
		if err := j.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestInvalidHosts checks that an invalid host is an error, and creates no record.
func TestInvalidHosts(t *testing.T) {
	s := record.NewMemory().Store("a")
	for _, host := range []string{
		"", "a/b", "a b", "[::1]", "a\n", "\xff", strings.Repeat("h", member.MaxHostBytes+1),
		strings.Repeat("h", member.MaxHostBytes),
	} {
		if err := EnableHost(t.Context(), s, "job", host, false); err == nil {
			t.Errorf("%.20q: no error", host)
		}
	}
	if err := EnableHost(t.Context(), s, "a/b", "h", false); err == nil {
		t.Error("an invalid job: no error")
	}
	if records, err := s.List(t.Context(), ""); len(records) > 0 || err != nil {
		t.Errorf("records %v, %v", records, err)
	}
}

// TestShardsLeaveADisabledHost checks that the workers of a disabled host own no shards.
func TestShardsLeaveADisabledHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 6
		table, tape := record.NewMemory(), newTape(t, count)
		ids := []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"}
		for _, id := range ids {
			defer runShards(t, table.Store(id), count, tape.workOn(id))()
		}
		tape.await(ids...)
		for _, on := range []bool{false, true} {
			if err := EnableHost(t.Context(), table.Store("admin"), "set", "10.0.0.1", on); err != nil {
				t.Fatal(err)
			}
			if on {
				tape.await(ids...)
			} else {
				tape.await("10.0.0.2:1")
			}
		}
	})
}
