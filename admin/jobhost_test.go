// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/leader"
)

// TestDisableHost checks that a disabled host loses the leadership, is listed, and can be enabled.
func TestDisableHost(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		host := adminapi.CandidateRequest{Host: trioAddress(0).Host} // all three nodes have this host
		c := a.client(1, newNetwork())
		first := a.elect(t.Context(), a.client(0, newNetwork()), "job")
		token := first.works()
		second := a.elect(t.Context(), c, "job")
		if err := c.Disable(t.Context(), "job", host); err != nil {
			t.Fatal(err)
		}
		first.lost(adminapi.CodeDisabled)
		second.waits()
		jobs, err := c.Jobs(t.Context())
		if err != nil || len(jobs) != 1 || jobs[0].Leader != nil ||
			cmp.Diff(jobs[0].DisabledHosts, []string{host.Host}) != "" || len(jobs[0].Disabled) != 0 {
			t.Errorf("jobs %+v, %v", jobs, err)
		}
		if err := c.Enable(t.Context(), "job", host); err != nil {
			t.Fatal(err)
		}
		leads, waits := first, second
		var next adminapi.RecordToken
		select {
		case next = <-first.began:
		case next = <-second.began:
			leads, waits = second, first
		}
		if next.Revision <= token.Revision {
			t.Errorf("token %+v after %+v", next, token)
		}
		for _, at := range []*attempt{leads, waits} {
			at.leave <- nil
			if at == waits {
				at.works()
			}
			if err := <-at.over; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
	})
}

// TestHostRequests checks that invalid hosts are refused.
func TestHostRequests(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		h := New(a.nodes[0], "", WithWrite(a.nodes[0], nil), WithJobs(a.nodes[0].store, a.remaining))
		for _, body := range []string{
			`{"host": "a", "member": "n0"}`, `{"host": "a b"}`, `{"host": "a/b"}`, `{"host": "\n"}`,
			`{"host": "[::1]:7000"}`, `{"host": "` + strings.Repeat("h", 300) + `"}`,
			`{"host": "` + strings.Repeat("h", 250) + `"}`, `{"host": 5}`, `{"hosts": "a"}`,
		} {
			for _, verb := range []string{"enable", "disable"} {
				r := httptest.NewRequest("POST", "/v1/jobs/job/"+verb, strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"bad_request"`) {
					t.Errorf("%s %.40s: %d %s, want 400 bad_request", verb, body, w.Code, w.Body)
				}
			}
		}
		if records := a.nodes[0].recordsUnder(""); len(records) > 0 {
			t.Errorf("records %v, want none", records)
		}
	})
}

// TestStuckShardIsListed checks that jobs has a shard whose work does not return after its member
// was disabled, and marks it until the work returns.
func TestStuckShardIsListed(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		shards, err := election.NewShards(a.nodes[0].store, "set", 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		release, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			_ = shards.Run(ctx, func(context.Context, int, leader.Term) error { <-release; return nil })
		}()
		c := a.client(1, newNetwork())
		listed := func() []adminapi.Latch {
			t.Helper()
			time.Sleep(10 * time.Second)
			jobs, err := c.Jobs(t.Context())
			if err != nil || len(jobs) != 1 {
				t.Fatalf("jobs %+v, %v", jobs, err)
			}
			return jobs[0].Latches
		}
		for _, stuck := range []bool{false, true} {
			if got := listed(); len(got) != 1 || got[0].Holder.Name != "n0" || got[0].Stuck != stuck {
				t.Errorf("got %+v, want one shard of n0, stuck %v", got, stuck)
			}
			n0 := adminapi.CandidateRequest{Member: "n0"}
			if err := c.Disable(t.Context(), "set", n0); err != nil {
				t.Fatal(err)
			}
		}
		close(release)
		if got := listed(); len(got) != 0 {
			t.Errorf("got %+v after the work has returned, want no shard", got)
		}
		cancel()
		<-stopped
	})
}
