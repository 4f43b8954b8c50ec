// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
)

// TestCallersAreNamed checks that jobs and locks show the caller and since when it holds them, that
// their changes are kept, and that a lock that is free now has its changes.
func TestCallersAreNamed(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		c := a.client(0, newNetwork())
		time.Sleep(2 * closeInterval)
		synctest.Wait() // the node has begun to follow the changes
		began := time.Now()
		job, lock := a.elect(t.Context(), c, "job"), a.lock(t.Context(), c, "job", "x")
		token := lock.works()
		job.works()
		time.Sleep(time.Minute)
		all, err := c.JobChanges(t.Context())
		if err != nil || len(all) != 1 || len(all[0].Latches) != 1 || len(all[0].Changes) != 2 {
			t.Fatalf("jobs %+v, %v", all, err)
		}
		for _, by := range []*adminapi.Holder{all[0].Leader, &all[0].Latches[0].Holder,
			all[0].Changes[0].Holder, all[0].Changes[1].Holder} {
			if by.Caller != "web1 pid 7" || by.Since == nil || by.Since.Sub(began).Abs() > time.Second {
				t.Errorf("holder %+v, since %v, want web1 pid 7 since %v", by, by.Since, began)
			}
		}
		for _, at := range []*attempt{lock, job} {
			at.leave <- nil
			<-at.over
		}
		time.Sleep(time.Second)
		if all, err := c.Jobs(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("held: %+v, %v, want none", all, err)
		}
		all, err = c.JobChanges(t.Context())
		if err != nil || len(all) != 1 || len(all[0].Changes) != 4 {
			t.Fatalf("jobs %+v, %v, want four changes of one job", all, err)
		}
		last := slices.IndexFunc(all[0].Changes, func(c adminapi.JobChange) bool {
			return c.Latch == "x" && c.Holder == nil
		})
		if first := all[0].Changes[0].Holder; last < 2 || first.Caller != "web1 pid 7" {
			t.Errorf("changes %+v, token %v", all[0].Changes, token)
		}
	})
}

// TestCallersOfOtherMembers checks that a member asks the holder of a lock for its caller, and that
// a holder may have none.
func TestCallersOfOtherMembers(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		var all [2]http.Handler
		for i := range all {
			n := w.nodes[i]
			all[i] = New(n, "v0.1", WithOthers(w.others[i]), WithWrite(n, func() {}),
				WithJobs(n.Records(), n.HoldRemaining))
		}
		l, err := lock.New(w.nodes[1].Records(), "job/x")
		if err != nil {
			t.Fatal(err)
		}
		err = l.Do(t.Context(), func(_ context.Context, term leader.Term) error {
			time.Sleep(time.Second) // until the other nodes show the record
			for _, want := range []string{"", "web1 pid 7"} {
				if want != "" {
					log := w.others[1].local.Load().contests.log
					log.addCaller(adminapi.Caller{Job: "job", Latch: "x", Caller: want,
						Token: adminapi.RecordToken(term.Token()), Since: time.Now()})
				}
				rec := httptest.NewRecorder()
				all[0].ServeHTTP(rec, httptest.NewRequest("GET", "/v1/jobs?callers", nil))
				var jobs []adminapi.Job
				err := json.Unmarshal(rec.Body.Bytes(), &jobs)
				if err != nil || len(jobs) != 1 || len(jobs[0].Latches) != 1 ||
					jobs[0].Latches[0].Holder.Caller != want {
					t.Errorf("want caller %q: %s, %v", want, rec.Body, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestJobLogIsBounded checks the limits of a jobLog, and that what was held before is no change.
func TestJobLogIsBounded(t *testing.T) {
	l, now := &jobLog{}, time.Unix(1, 0)
	jobs := func(first, n, revision int) (all []election.JobInfo) {
		for i := range n {
			by := leader.Holder{ID: "h:1", Token: member.Token{Version: 1, Revision: uint64(revision)}}
			all = append(all, election.JobInfo{Name: fmt.Sprintf("job%04d", first+i), Leader: by})
		}
		return all
	}
	l.recordChanges(now, nil, jobs(0, 2*maxChanged, 1))
	if len(l.changes) != 0 || !l.held[lockName{"job0000", ""}].since.IsZero() {
		t.Errorf("first call: changes %v", l.changes)
	}
	for i := range 2 * maxChanges {
		now = now.Add(time.Second)
		l.recordChanges(now, nil, jobs(i%2*maxChanged, 2*maxChanged, i+2))
	}
	if len(l.changes) != maxChanged {
		t.Errorf("changes of %d jobs, want %d", len(l.changes), maxChanged)
	}
	for name, list := range l.changes {
		if len(list) > maxChanges || !list[len(list)-1].Time.Equal(now) {
			t.Errorf("%v: changes %+v", name, list)
		}
	}
	for i := range 2 * maxCallers {
		l.addCaller(adminapi.Caller{Job: fmt.Sprint(i)})
	}
	all := l.listCallers()
	if len(all) != maxCallers || all[maxCallers-1].Job != fmt.Sprint(2*maxCallers-1) {
		t.Errorf("%d callers, the last is %+v", len(all), all[len(all)-1])
	}
}

// TestCallerOfAPermit checks that a permit is matched with the caller of its semaphore, and that
// the text of another member is shown as one printable line.
func TestCallerOfAPermit(t *testing.T) {
	token := adminapi.RecordToken{Version: 1, Revision: 2}
	callers := []adminapi.Caller{
		{Job: "job", Latch: "x", Token: token, Caller: "a\nb"},
		{Job: "job", Latch: "x", Token: token, Caller: "c"},
		{Job: "job", Latch: "x", Token: adminapi.RecordToken{Version: 1}, Caller: "earlier"},
		{Job: "job", Latch: "y", Token: token, Caller: "other lock"},
		{Job: "other", Latch: "x", Token: token, Caller: "other job"},
	}
	for latch, want := range map[string]string{"x": "a; b, c", "x/1": "a; b, c", "z/1": "", "": ""} {
		by := adminapi.Holder{Token: token}
		addCaller(&by, lockName{"job", latch}, callers)
		if diff := cmp.Diff(want, by.Caller); diff != "" {
			t.Errorf("%q: %s", latch, diff)
		}
	}
}

// TestCallerRefused checks that a caller whose text is too long or not printable is refused.
func TestCallerRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		h := New(a.nodes[0], "", WithWrite(a.nodes[0], nil), WithJobs(a.nodes[0].store, a.remaining))
		for _, text := range []string{strings.Repeat("h", adminapi.MaxCallerBytes+1), "a\x1b", "\xff"} {
			for _, path := range []string{"/v1/jobs/a/lock", "/v1/jobs/a/elect"} {
				r := httptest.NewRequest("POST", path, strings.NewReader("{}"))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set(adminapi.CallerHeader, text)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != 400 {
					t.Errorf("%q: %d %s, want 400", text, w.Code, w.Body)
				}
			}
		}
	})
}
