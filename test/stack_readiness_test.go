// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
)

// TestReadinessOfACutOffNode checks how soon a node that hears no leader fails its health checks,
// as docs/admin-api.md states. Its peers do not reach it, are dead, or follow a later run that took
// its seat.
func TestReadinessOfACutOffNode(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(c *athenatest.Cluster, i int){
		"cut off": func(c *athenatest.Cluster, i int) { c.Partition([]int{i}) },
		"peers dead": func(c *athenatest.Cluster, i int) {
			c.Crash((i + 1) % 3)
			c.Crash((i + 2) % 3)
		},
		"seat taken": func(c *athenatest.Cluster, i int) { c.TakeOver(i, true) },
	} {
		for _, leads := range []bool{false, true} {
			athenatest.Run(t, athenatest.Options{}, func(t *testing.T, c *athenatest.Cluster) {
				i := c.Leader()
				if !leads {
					i = (i + 1) % c.Size()
				}
				h := admin.New(c.Node(i), "")
				c.Advance(2 * cluster.DefaultConfig().LeaderTimeout) // until it can vote
				checkReady(t, c, h, "before", map[string]int{"": 200, "?votes": 200, "?quorum": 200})
				disturb(c, i)
				failHealthChecks(t, c, h, fmt.Sprintf("%s, leads %v", name, leads))
			})
		}
	}
}

// failHealthChecks checks that the health checks of a node fail within their bounds, and stay so.
func failHealthChecks(t *testing.T, c *athenatest.Cluster, h http.Handler, name string) {
	t.Helper()
	const step = 10 * time.Millisecond
	began, timings := time.Now(), cluster.DefaultConfig()
	c.Advance(timings.LeaderTimeout + step)
	checkReady(t, c, h, name+": after LeaderTimeout", map[string]int{
		"": 200, "?votes": 503, "?quorum": 503, "?leader": 503,
	})
	end := began.Add(3*timings.TTLTimeout + 2*timings.LeaderTimeout + step)
	for time.Now().Before(end) {
		checkReady(t, c, h, name, map[string]int{"?votes": 503, "?quorum": 503, "?leader": 503})
		c.Advance(timings.HeartbeatInterval)
	}
	checkReady(t, c, h, name+": after 3 x TTLTimeout", map[string]int{"": 503, "?votes": 503})
}

// checkReady checks the status of /readyz by query.
func checkReady(
	t *testing.T, c *athenatest.Cluster, h http.Handler, when string, want map[string]int,
) {
	t.Helper()
	for query, status := range want {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz"+query, nil))
		if w.Code != status {
			t.Errorf("%s: GET /readyz%s: %d %s, want %d\n%v", when, query, w.Code, w.Body, status, c)
		}
	}
}
