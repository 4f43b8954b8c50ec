// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestProcessMistypedAddress starts two daemons with the addresses of two members in --advertise,
// over each transport. Each ends with exit code 1 and a text that names the mistake, or is killed
// before. The token, the leader and all members stay, and a member that is killed returns
// meanwhile.
func TestProcessMistypedAddress(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"quic", "tls"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			testMistypedAddress(t, transport)
		})
	}
}

func testMistypedAddress(t *testing.T, transport string) {
	c := newNodes(t, 3)
	var all []*process
	for i := range 3 {
		all = append(all, c.start(i+1, "--transport", transport))
	}
	leader := c.settle(1, 2, 3)
	before, _ := c.status(leader)
	other := leader%3 + 1
	free := freeAddresses(t, 2)
	var work sync.WaitGroup
	for i, victim := range []int{leader, other} {
		flags := c.flags(victim, "--transport", transport, "--addr", free[i], "--advertise",
			c.addrs[victim-1], "--name", "typo", "--admin", "off",
			"--data-dir", filepath.Join(c.dir, "typo"+free[i]))
		work.Go(func() {
			for range 3 {
				p := start(t, flags...)
				if code := p.wait(); code != 1 {
					t.Errorf("the daemon with a mistyped address: exit code %d, want 1", code)
				}
				for _, want := range []string{"address is in use", c.addrs[victim-1],
					"correct the address that this process advertises"} {
					if got := p.stderr.String(); !strings.Contains(got, want) {
						t.Errorf("the daemon with a mistyped address writes %q, want %q in it", got, want)
					}
				}
			}
			for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
				p := start(t, flags...)
				time.Sleep(200 * time.Millisecond)
				p.signal(s)
				p.wait()
			}
		})
	}
	work.Wait()
	all[other-1].signal(syscall.SIGKILL)
	all[other-1].wait()
	c.start(other, "--transport", transport)
	if got := c.settle(1, 2, 3); got != leader {
		t.Errorf("node %d leads, want %d as before", got, leader)
	}
	if after, _ := c.status(leader); after.Token != before.Token {
		t.Errorf("the token is %d, want %d as before", after.Token, before.Token)
	}
}
