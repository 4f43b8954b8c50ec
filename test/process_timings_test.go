// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestProcessTimingsNodeByNode restarts each daemon with shorter timings, and then with the former
// ones, the leader last. Nodes with different timings refuse each other. So no node leads from the
// second restart until a majority has the new timings and has waited for the promises of the old.
// Tokens grow, and at the end all nodes are active.
func TestProcessTimingsNodeByNode(t *testing.T) {
	c := newNodes(t, 3)
	all, leader := c.startAll()
	for _, profile := range []string{"local", "lan"} {
		before, _ := c.status(leader)
		stop := c.watchLeaders()
		order := slices.DeleteFunc([]int{1, 2, 3}, func(i int) bool { return i == leader })
		for _, i := range append(order, leader) {
			all[i-1].signal(syscall.SIGTERM)
			if code := all[i-1].wait(); code != 0 {
				t.Fatalf("n%d: exit %d", i, code)
			}
			all[i-1] = c.start(i, "--profile", profile)
		}
		next := c.settle(1, 2, 3)
		longest := stop()
		if after, _ := c.status(next); after.Token <= before.Token {
			t.Errorf("%s: token %d after token %d", profile, after.Token, before.Token)
		}
		t.Logf("to %s: no leader for at most %v", profile, longest.Round(time.Millisecond))
		leader = next
	}
}

// watchLeaders polls all nodes until the function stop is called, which returns the longest time
// without a leader. It fails the test if the token of the leader ever decreases.
func (c *nodes) watchLeaders() (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var work sync.WaitGroup
	var longest time.Duration
	work.Go(func() {
		var token uint64
		for led := time.Now(); ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
			for i := range c.addrs {
				s, ok := c.status(i + 1)
				if !ok || !s.IsLeader() || s.Token == 0 {
					continue
				}
				if s.Token < token {
					c.t.Errorf("n%d leads with token %d after token %d", i+1, s.Token, token)
				}
				token, led = s.Token, time.Now()
			}
			longest = max(longest, time.Since(led))
		}
	})
	return func() time.Duration {
		cancel()
		work.Wait()
		return longest
	}
}
