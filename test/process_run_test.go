// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
)

// leaderTimeout is the timeout of the nodes in these tests, in milliseconds.
const leaderTimeout = 1000

// The ports of freeAddresses are below those that systems give to outgoing connections, which other
// tests may take.
const (
	firstPort = 20_000
	portCount = 12_000
)

// nextPort counts the ports that freeAddresses has tried, from a random one on. So no two parallel
// tests get the same port, even if no node listens on it yet.
var nextPort = rand.Uint32()

// freeAddresses finds addresses of the loopback interface that are unused over UDP and TCP.
func freeAddresses(t *testing.T, count int) (all []string) {
	t.Helper()
	for range 1000 {
		if len(all) == count {
			return all
		}
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+atomic.AddUint32(&nextPort, 1)%portCount)
		c, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		defer c.Close() // closed at the end, so that no address is found twice
		if l, err := net.Listen("tcp", addr); err == nil {
			defer l.Close()
			all = append(all, addr)
		}
	}
	t.Fatalf("found %d of %d free ports", len(all), count)
	return nil
}

// TestProcessRefused starts nodes that cannot join a running cluster. Each prints the reason and a
// remedy, and exits with 1. The cluster keeps running and logs the attempts.
func TestProcessRefused(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	all, leader := c.startAll()
	before, _ := c.status(leader)
	seeds := strings.Join(c.addrs, ",")
	other := freeAddresses(t, 1)[0]
	for _, k := range []struct {
		name string
		more []string
		want []string
	}{
		{"port in use", []string{"--addr", c.addrs[0], "--data-dir", c.store(9)},
			[]string{"in use", c.addrs[0], "another port"}},
		{"store in use", []string{"--addr", c.addrs[0], "--data-dir", c.store(1)},
			[]string{"in use", c.store(1)}},
		{"other secret", []string{"--secret-file", c.secret("other", string(cluster.NewSecret()))},
			[]string{"could not join", "same secret"}},
		{"other name", []string{"--cluster", "other"}, []string{"could not join", "same cluster name"}},
		{"other size", []string{"--size", "5"},
			[]string{"could not join", "--size differs: 5 here, 3 at the peer", "the same on every node"}},
		{"other timings", []string{"--profile", "wan"},
			[]string{"could not join", "--profile differs: wan here, lan at the peer",
				"--lease-timeout differs", "the same on every node"}},
	} {
		t.Run(k.name, func(t *testing.T) {
			flags := append([]string{"run", "--addr", other, "--size", "3", "--seeds", seeds,
				"--secret-file", filepath.Join(c.dir, "secret"), "--data-dir", c.store(9)}, k.more...)
			code, stdout, stderr := run(t, flags...)
			if code != 1 || stdout != "" {
				t.Errorf("%q: exit %d, standard output %q, want 1 and none", k.more, code, stdout)
			}
			for _, want := range k.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q prints\n%s\nwant %q in it", k.more, stderr, want)
				}
			}
		})
	}
	after, ok := c.status(leader)
	if !ok || after.Token != before.Token || after.Active() != 3 {
		t.Errorf("the cluster after that: token %d, %d active, want token %d, 3 active",
			after.Token, after.Active(), before.Token)
	}
	for i, p := range all {
		for _, want := range []string{"handshake refused", "peer refused", "Size differs: 3 here, 5 at"} {
			eventually(t, fmt.Sprintf("n%d prints %q", i+1, want), func() bool {
				return strings.Contains(p.stderr.String(), want)
			})
		}
	}
}

// TestProcessAdminTaken checks that a node does not start if it cannot serve the admin API at the
// given address.
func TestProcessAdminTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newNodes(t, 1)
	code, stdout, stderr := run(t, c.flags(1, "--admin", l.Addr().String())...)
	if code != 1 || stdout != "" || !strings.Contains(stderr, l.Addr().String()) {
		t.Errorf("exit %d, output %q, error\n%s\nwant 1 and the address", code, stdout, stderr)
	}
}

// TestProcessCorruptStore checks that a node with a damaged store reports the damage and does not
// change the file.
func TestProcessCorruptStore(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 1)
	p := c.start(1)
	c.settle(1)
	p.signal(syscall.SIGKILL)
	p.wait()
	path := filepath.Join(c.store(1), "athena.state")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{
		"cut off":  whole[:len(whole)/2],
		"changed":  append(append([]byte{}, whole[:200]...), "???"+string(whole[203:])...),
		"empty":    {},
		"no store": []byte("this is something else entirely\n"),
	} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := run(t, c.flags(1)...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, path) {
			t.Errorf("%s: exit %d, output %q, error\n%s\nwant 1 and the path", name, code, stdout, stderr)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, damaged) {
			t.Errorf("%s: the file is %q, %v, want it untouched", name, now, err)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(1)
	c.settle(1)
}

// TestProcessStart checks that a node that starts prints one line for users on standard error, and
// nothing on standard output.
func TestProcessStart(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 1)
	p := c.start(1, "--log-format", "json", "--cluster", "orders")
	c.settle(1)
	eventually(t, "a line", func() bool { return strings.Contains(p.stderr.String(), "\n") })
	first, _, _ := strings.Cut(p.stderr.String(), "\n")
	for _, want := range []string{
		`"starting"`, `"address":"` + c.addrs[0] + `"`, `"cluster":"orders"`, `"size":1`,
		`"admin":"` + c.admin(1) + `"`,
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the first line is\n%s\nwant %s in it", first, want)
		}
	}
	p.signal(os.Interrupt.(syscall.Signal))
	if code := p.wait(); code != 0 || p.stdout.String() != "" {
		t.Errorf("after SIGINT: exit %d, output %q, want 0 and none", code, &p.stdout)
	}
}

// TestProcessLeave checks that SIGTERM hands leadership over: the others have a leader long before
// they could detect a failure.
func TestProcessLeave(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	all, leader := c.startAll()
	p := all[leader-1]
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	rest := map[int][]int{1: {2, 3}, 2: {1, 3}, 3: {1, 2}}[leader]
	next := c.settle(rest...)
	s, _ := c.status(next)
	if e := s.LastElection; e == nil || e.TookMS >= leaderTimeout {
		t.Errorf("last election: %+v, want less than %d ms, when silence is noticed",
			e, leaderTimeout)
	}
	c.start(leader)
	if again := c.settle(1, 2, 3); again != next {
		t.Errorf("after the return of n%d, n%d leads, want n%d", leader, again, next)
	}
}

// TestProcessAlone starts one node of three. The node must run, not be ready, know no leader, and
// stop on request.
func TestProcessAlone(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	p := start(t, "run", "--addr", c.addrs[0], "--name", "n1", "--size", "3",
		"--seeds", c.addrs[1]+","+c.addrs[2], "--secret-file", filepath.Join(c.dir, "secret"),
		"--memory", "--admin", c.admin(1))
	eventually(t, "n1 answers", func() bool { _, ok := c.status(1); return ok })
	code, stdout, stderr := run(t, "leader", "--admin", c.admin(1))
	if code != 1 || stdout != "" || !strings.Contains(stderr, "no leader") {
		t.Errorf("athena leader: exit %d, output %q, error %q, want 1 and no leader",
			code, stdout, stderr)
	}
	code, stdout, _ = run(t, "status", "--admin", c.admin(1))
	if code != 0 || !strings.Contains(stdout, "n1 at "+c.addrs[0]+", joining") {
		t.Errorf("athena status: exit %d, output\n%s\nwant 0, joining", code, stdout)
	}
	for _, want := range []string{
		"WRN not in a cluster yet leaderless_ms=", `why="asked `,
		c.addrs[1] + " (no answer)", c.addrs[2] + " (no answer)",
	} {
		eventually(t, "n1 prints "+want, func() bool { return strings.Contains(p.stderr.String(), want) })
	}
	p.signal(syscall.SIGHUP) // read after joining
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("SIGTERM while joining: exit %d, want 0", code)
	}
}

// TestProcessSecondSignal checks that a second signal immediately ends a leader that cannot hand
// over because no other node is left.
func TestProcessSecondSignal(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	all, leader := c.startAll()
	for i, p := range all {
		if i+1 != leader {
			p.signal(syscall.SIGKILL)
		}
	}
	p := all[leader-1]
	p.signal(syscall.SIGTERM)
	eventually(t, "it leaves", func() bool { return strings.Contains(p.stderr.String(), "leaving") })
	time.Sleep(200 * time.Millisecond) // simultaneous signals count as one
	began := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 1 || time.Since(began) > patience/4 {
		t.Errorf("exit %d after %v, want 1 immediately", code, time.Since(began))
	}
	p.waitForLines("stopping on a signal; a second signal forces an immediate exit", 1)
	p.waitForLines("exiting immediately on a second signal", 1)
}
