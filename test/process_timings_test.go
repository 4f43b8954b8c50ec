// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
)

// twiceLAN are timings twice as long as those of lan. Those of local would be too short for a busy
// machine, on which a leader may lose its lease while it waits for a CPU.
const twiceLAN = "lan,heartbeat-interval=200ms,heartbeat-timeout=800ms,leader-timeout=2s," +
	"lease-timeout=1400ms,ttl-timeout=20s,retry-interval=1s"

// timingFlags returns the flags for timings in the form of --other-timings.
func timingFlags(timings string) []string {
	profile, changes, _ := strings.Cut(timings, ",")
	flags := []string{"--profile", profile}
	for change := range strings.SplitSeq(changes, ",") {
		if key, value, ok := strings.Cut(change, "="); ok {
			flags = append(flags, "--"+key, value)
		}
	}
	return flags
}

// TestProcessTimingsNodeByNode restarts each daemon with longer timings, and then with the former
// ones, the leader last. Nodes with different timings refuse each other. So no node leads from the
// second restart until a majority has the new timings and has waited for the promises of the old.
// Tokens grow, and at the end all nodes are active.
func TestProcessTimingsNodeByNode(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	all, leader := c.startAll()
	for _, timings := range []string{twiceLAN, "lan"} {
		before, _ := c.status(leader)
		stop := c.watchLeaders()
		order := slices.DeleteFunc([]int{1, 2, 3}, func(i int) bool { return i == leader })
		for _, i := range append(order, leader) {
			all[i-1].signal(syscall.SIGTERM)
			if code := all[i-1].wait(); code != 0 {
				t.Fatalf("n%d: exit %d", i, code)
			}
			all[i-1] = c.start(i, timingFlags(timings)...)
		}
		next := c.settle(1, 2, 3)
		longest := stop()
		if after, _ := c.status(next); after.Token <= before.Token {
			t.Errorf("%s: token %d after token %d", timings, after.Token, before.Token)
		}
		t.Logf("to %s: no leader for at most %v", timings, longest.Round(time.Millisecond))
		leader = next
	}
}

// A leaving leader names its successor, so that no node waits for LeaderTimeout, at least 1 s here.
// Without other work on the machine a planned step takes at most 50 ms (docs/deployment.md).
const (
	// plannedGap is the longest permitted time without a leader in most rounds of planned steps.
	plannedGap = 500 * time.Millisecond
	// handOverGap is that of every round. A busy machine may run a process late, but a step without
	// hand-over takes longer even on an idle one: its followers wait for LeaderTimeout from the last
	// message of the leader, which sends one each 100 ms.
	handOverGap = 900 * time.Millisecond
)

// TestProcessTimingsInSteps changes the timings of three daemons from lan to twiceLAN and back
// while they accept both sets. It restarts one daemon at a time, the leader last, while all send
// events and another member holds a lock. No step leaves the cluster without a leader for longer
// than handOverGap, most none for longer than plannedGap, and no lock is lost.
func TestProcessTimingsInSteps(t *testing.T) {
	c, all := withWrite(t)
	stop := c.sendThrough()
	var rounds []time.Duration
	for _, way := range [][2]string{{"lan", twiceLAN}, {twiceLAN, "lan"}} {
		for round, flags := range [][]string{
			append(timingFlags(way[0]), "--other-timings", way[1]),
			append(timingFlags(way[1]), "--other-timings", way[0]),
			timingFlags(way[1]),
		} {
			leader := c.settle(1, 2, 3)
			order := slices.DeleteFunc([]int{1, 2, 3}, func(i int) bool { return i == leader })
			longest := time.Duration(0)
			for _, i := range append(order, leader) {
				longest = max(longest, c.restartHolding(all, i, flags...))
			}
			t.Logf("%s to %s, round %d: no leader for at most %v", way[0], way[1], round+1,
				longest.Round(100*time.Microsecond))
			if longest > handOverGap {
				t.Errorf("no leader for %v, want at most %v", longest, handOverGap)
			}
			rounds = append(rounds, longest)
		}
	}
	slices.Sort(rounds)
	if median := rounds[len(rounds)/2]; median > plannedGap {
		t.Errorf("no leader for %v in half of the rounds, want at most %v", median, plannedGap)
	}
	if sent := stop(); sent < 100 {
		t.Errorf("%d events, want at least 100", sent)
	} else {
		t.Logf("%d events reached all members", sent)
	}
}

// restartHolding restarts a daemon with other flags, while the next one holds a lock. It waits
// until the daemon votes again, and returns the longest time without a leader.
func (c *nodes) restartHolding(all []*process, i int, flags ...string) (longest time.Duration) {
	c.t.Helper()
	n := newNotes(c.t)
	holder := c.verb(i%len(all)+1, "lock", "lock/held", n.script(untilTerm)...)
	n.want("begin")
	stop := c.watchLeaders()
	all[i-1].signal(syscall.SIGTERM)
	if code := all[i-1].wait(); code != 0 {
		c.t.Fatalf("n%d: exit %d", i, code)
	}
	all[i-1] = c.start(i, append(flags, "--admin-write")...)
	c.settle(1, 2, 3)
	eventually(c.t, fmt.Sprintf("n%d votes", i), func() bool {
		r, err := c.get(i, "/readyz?votes")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	longest = stop()
	n.want("begin") // the lock was not lost
	holder.signal(syscall.SIGTERM)
	holder.ended(7, "")
	return longest
}

// sendThrough sends events from each node to all until the function stop is called, which returns
// how many reached all members. Those to or from a daemon that restarts may fail.
func (c *nodes) sendThrough() (stop func() int64) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var work sync.WaitGroup
	var sent atomic.Int64
	for i := range c.addrs {
		client := c.openClient(i + 1)
		work.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
				answer, err := client.Send(ctx, adminapi.SendRequest{
					Name: "Probe", Payload: json.RawMessage(`{}`),
				})
				if err == nil && len(answer.Results) == len(c.addrs) {
					sent.Add(1)
				}
			}
		})
	}
	return func() int64 {
		cancel()
		work.Wait()
		return sent.Load()
	}
}

// watchLeaders polls all nodes until the function stop is called, which returns the longest time
// without a leader. It fails the test if the token of the leader ever decreases.
func (c *nodes) watchLeaders() (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var work sync.WaitGroup
	var mu sync.Mutex
	var token uint64
	var longest time.Duration
	led := time.Now()
	for i := range c.addrs { // each on its own: a node that starts may answer late
		work.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
				asked := time.Now()
				s, ok := c.status(i + 1)
				if !ok || !s.IsLeader() || s.Token == 0 {
					continue
				}
				mu.Lock()
				if s.Token < token && asked.After(led) {
					c.t.Errorf("n%d leads with token %d after token %d", i+1, s.Token, token)
				}
				longest = max(longest, time.Since(led))
				token, led = max(token, s.Token), time.Now()
				mu.Unlock()
			}
		})
	}
	return func() time.Duration {
		cancel()
		work.Wait()
		return max(longest, time.Since(led))
	}
}
