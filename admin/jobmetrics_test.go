// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

// jobSamples returns the samples of jobFamilies that are not 0, and of athena_job_has_leader, as
// one line of "name{labels}=value".
func (a *testCluster) jobSamples(i int) string {
	a.t.Helper()
	client := http.Client{Transport: &http.Transport{
		DialContext: a.dialer(i, newNetwork()), DisableKeepAlives: true,
	}}
	resp, err := client.Get("http://memory:1/metrics")
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	var out []string
	sample := regexp.MustCompile(`(?m)^athena_(records|job_has_leader|lock_wait_seconds)` +
		`{cluster="",([^}]*)} (\S+)$`)
	for _, m := range sample.FindAllStringSubmatch(string(text), -1) {
		if m[1] == "job_has_leader" || m[3] != "0" {
			out = append(out, m[1]+"{"+m[2]+"}="+m[3])
		}
	}
	return strings.Join(out, " ")
}

func (a *testCluster) checkSamples(i int, want string) {
	a.t.Helper()
	synctest.Wait()
	if got := a.jobSamples(i); got != want {
		a.t.Errorf("node %d:\n got %s\nwant %s", i, got, want)
	}
}

// TestJobMetrics checks the metrics of a job and of a lock while callers take part, and that a node
// without a leader only exports how long its own callers have waited.
func TestJobMetrics(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		leads := a.elect(t.Context(), a.client(0, newNetwork()), "billing")
		leads.works()
		waits := a.elect(t.Context(), a.client(1, newNetwork()), "billing")
		waits.waits()
		holds := a.lock(t.Context(), a.client(0, newNetwork()), "lock", "backup")
		holds.works()
		a.checkSamples(0, `records{kind="job"}=1 records{kind="lock"}=1 `+
			`job_has_leader{name="billing"}=1`)

		blocked := a.lock(t.Context(), a.client(2, newNetwork()), "lock", "backup")
		time.Sleep(time.Minute)
		second := a.lock(t.Context(), a.client(2, newNetwork()), "lock", "backup")
		time.Sleep(time.Minute)
		a.checkSamples(1, `records{kind="job"}=1 records{kind="lock"}=1 records{kind="waiting"}=1 `+
			`job_has_leader{name="billing"}=1`)
		a.checkSamples(2, `lock_wait_seconds{name="lock/backup"}=120`)

		host := adminapi.CandidateRequest{Host: trioAddress(0).Host} // all three nodes have this host
		c := a.client(1, newNetwork())
		if err := c.Disable(t.Context(), "billing", host); err != nil {
			t.Fatal(err)
		}
		leads.lost(adminapi.CodeDisabled)
		a.checkSamples(1, `records{kind="disabled"}=1 records{kind="lock"}=1 `+
			`records{kind="waiting"}=1 `+
			`job_has_leader{name="billing"}=0`)
		if err := c.Enable(t.Context(), "billing", host); err != nil {
			t.Fatal(err)
		}
		all := []*attempt{leads, waits, holds, blocked, second}
		for _, at := range all {
			at.leave <- nil // now, because the former leader is the last to lead again
		}
		for _, at := range all {
			if err := <-at.over; err != nil {
				t.Error(err)
			}
		}
		a.checkSamples(0, "")
		a.checkSamples(2, "")
	})
}

// TestWaitsAfterALoss checks that a caller that lost the leadership counts as waiting, and that the
// time starts again.
func TestWaitsAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l waitList
		first, second := &contender{}, &contender{}
		first.lock, second.lock = "a/b", "a/b"
		l.set(first, true)
		time.Sleep(time.Second)
		l.set(second, true)
		l.set(first, false)
		time.Sleep(time.Second)
		l.set(first, true)
		if _, locks := l.read(); locks["a/b"] != time.Second {
			t.Errorf("waits %v, want 1s", locks)
		}
		l.set(second, false)
		l.set(first, false)
		if _, locks := l.read(); len(locks) > 0 || len(l.since) > 0 {
			t.Errorf("waits %v, want none", locks)
		}
	})
}

// TestJobLabelsAreBounded checks that a cluster full of jobs, with names chosen by a hostile
// client, has at most maxJobs samples for each metric, and that no name breaks the text format.
func TestJobLabelsAreBounded(t *testing.T) {
	s := saying{}
	s.status.Token = member.Token{Version: 1}
	for i := range member.MaxRecords {
		key := fmt.Sprintf("latch/%04d\"}\\ü/leader", i)
		s.records = append(s.records, member.Record{Key: key, Revoked: i == 0})
	}
	text := httptest.NewRecorder()
	New(s, "").ServeHTTP(text, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, want := range []string{
		`athena_job_has_leader{cluster="",name="0000\"}\\ü"} 0` + "\n",
		`athena_job_has_leader{cluster="",name="0001\"}\\ü"} 1` + "\n",
		`athena_records{cluster="",kind="job"} 2048` + "\n",
		`athena_records_used_ratio{cluster=""} 1` + "\n",
	} {
		if !strings.Contains(text.Body.String(), want) {
			t.Errorf("no sample %s", want)
		}
	}
	if n := strings.Count(text.Body.String(), "\nathena_job_has_leader{"); n != maxJobs {
		t.Errorf("%d jobs have samples, want %d", n, maxJobs)
	}

	waits := map[string]time.Duration{}
	for i := range maxHolds {
		waits[fmt.Sprint("lock/", i)] = time.Second
	}
	for _, f := range jobFamilies {
		out := &sink{family: &f}
		f.read(snapshot{waits: waits}, out)
		if len(out.samples) > maxJobs {
			t.Errorf("%s: %d samples, want at most %d", f.name, len(out.samples), maxJobs)
		}
	}
}

// TestRecordKinds checks the kind and the job of keys, including those that no package writes.
func TestRecordKinds(t *testing.T) {
	for key, want := range map[string][2]string{
		"latch/a/leader": {"a", "job"}, "latch/a/latch/b/c": {"a", "lock"},
		"latch/a/queue/b/c": {"a", "waiting"}, "latch/a/disabled/h:1": {"a", "disabled"},
		"latch/a/host/h": {"a", "disabled"}, "latch/a/other": {"", "other"},
		"latch//leader": {"", "other"}, "latch/a": {"", "other"}, "x/a/leader": {"", "other"},
	} {
		if job, kind := splitKey(key); [2]string{job, kind} != want {
			t.Errorf("%s: got %q, %q, want %q", key, job, kind, want)
		}
	}
}

// TestFamiliesAreDocumented checks the line of docs/metrics.md of each metric, also of those that
// have no samples in a small cluster.
func TestFamiliesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range listFamilies() {
		metric := f.name
		if len(f.labels) > 0 {
			metric += "{" + strings.Join(slices.Sorted(slices.Values(f.labels)), ",") + "}"
		}
		line := fmt.Sprintf("\n- `%s` %s: %s\n", metric, f.kind, f.help)
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/metrics.md has no line%s", line)
		}
	}
}
