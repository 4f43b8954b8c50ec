// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestProcessOverTLS runs daemons over TLS on TCP. When the leader is killed, another node leads
// with a greater token, and the killed node comes back as a member.
func TestProcessOverTLS(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	var all []*process
	for i := range 3 {
		all = append(all, c.start(i+1, "--transport", "tls"))
	}
	leader := c.settle(1, 2, 3)
	before, _ := c.status(leader)
	all[leader-1].signal(syscall.SIGKILL)
	all[leader-1].wait()
	next := c.settle(slices.DeleteFunc([]int{1, 2, 3}, func(i int) bool { return i == leader })...)
	if after, _ := c.status(next); after.Token <= before.Token {
		t.Errorf("token %d came after token %d", after.Token, before.Token)
	}
	all[leader-1] = c.start(leader, "--transport", "tls")
	c.settle(1, 2, 3)
	code, _, stderr := run(t, c.flags(1, "--transport", "tls", "--data-dir", c.store(9))...)
	if code != 1 || !strings.Contains(stderr, "in use") {
		t.Errorf("on an address in use: exit code %d, %s", code, stderr)
	}
}

// TestProcessRefusedPortOverTLS kills two leaders, one after the other. Their host refuses the
// ports, so with TrustRefusal the others do not wait for LeaderTimeout.
func TestProcessRefusedPortOverTLS(t *testing.T) {
	t.Parallel()
	const leaderTimeout = 30 * time.Second
	c := newNodes(t, 5)
	all := map[int]*process{}
	for i := range 5 {
		all[i+1] = c.start(i+1, "--transport", "tls", "--trust-refusal",
			"--leader-timeout", leaderTimeout.String(), "--ttl-timeout", "5m")
	}
	leader := c.settle(1, 2, 3, 4, 5)
	begin := time.Now()
	for range 2 { // each follower has a connection with the leader, whichever of them dialed it
		all[leader].signal(syscall.SIGKILL)
		all[leader].wait()
		delete(all, leader)
		killed := leader
		eventually(t, "another leader", func() bool {
			for i := range all {
				if s, ok := c.status(i); ok && s.Token > 0 && s.IsLeader() {
					leader = i
				}
			}
			return leader != killed
		})
	}
	if took := time.Since(begin); took > leaderTimeout {
		t.Errorf("two elections took %v, want less than LeaderTimeout, %v", took, leaderTimeout)
	}
}

// TestProcessTransportsDiffer starts a daemon whose transport differs from that of the other seeds,
// and checks that they refuse it with an error that names the difference.
func TestProcessTransportsDiffer(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	for i := range 2 {
		c.start(i + 1)
	}
	c.settle(1, 2)
	code, _, stderr := run(t, c.flags(3, "--transport", "tls", "--data-dir", c.store(3))...)
	if want := "--transport differs: tls here, quic at the peer"; code != 1 ||
		!strings.Contains(stderr, want) {
		t.Errorf("exit code %d, want 1 and %q:\n%s", code, want, stderr)
	}
}
