// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// restStep is the interval between checks of a stack while nothing may be disturbed. The watch
// detects shorter disturbances.
const restStep = 50 * time.Millisecond

// stack is a cluster of whole nodes in one bubble. The API, QUIC, TLS and files are real; packets,
// TCP and time are virtual. A watch checks all nodes.
type stack struct {
	*athenatest.Cluster
	t      *testing.T
	size   int
	tls    bool                           // over TLS on TCP instead of QUIC
	seeds  int                            // number of seeds, the first nodes
	memory bool                           // stores are lost when their processes end
	change func(i int, c *cluster.Config) // changes the usual configuration; may be nil
	// store opens the store of a node; nil means the configured one.
	store func(i int) store.Store
	watch *watch
	// patience is the timeout of Start; 0 means no timeout. joined[i] is set when Start of node i has
	// returned without an error.
	patience time.Duration
	joined   [stackHosts]atomic.Bool
}

// stackHosts is the largest number of nodes.
const stackHosts = 5 + athenatest.Spares

// inStack runs a test in a bubble with QUIC, and in another one with TLS on TCP. All nodes are
// seeds. inStack starts no node.
func inStack(t *testing.T, size int, test func(*testing.T, *stack)) {
	t.Helper()
	over := func(t *testing.T, tls bool) {
		synctest.Test(t, func(t *testing.T) {
			s := &stack{t: t, size: size, seeds: size, tls: tls}
			s.watch = newWatch(t)
			t.Cleanup(s.watch.left.Wait)
			s.Cluster = athenatest.New(t, athenatest.Options{
				Size: size, Delay: oneWay, TLS: tls, Config: s.config, Main: s.main,
			})
			test(t, s)
		})
	}
	t.Run("quic", func(t *testing.T) { over(t, false) })
	t.Run("tls", func(t *testing.T) { over(t, true) })
}

// inFormedStack runs a test with nodes that form a cluster at rest.
func inFormedStack(t *testing.T, size int, test func(*testing.T, *stack)) {
	t.Helper()
	inStack(t, size, func(t *testing.T, s *stack) {
		s.form()
		test(t, s)
	})
}

func (s *stack) form() {
	s.t.Helper()
	s.Start()
	s.Within(10*time.Second, "one cluster", s.settled)
	s.Advance(time.Second)
}

func (s *stack) config(i int, c *cluster.Config) {
	c.Seeds = c.Seeds[:s.seeds]
	if s.memory {
		c.DataDir, c.Memory = "", true
	}
	if s.change != nil {
		s.change(i, c)
	}
}

// main is the main function of a process. It returns the error with which the node stopped.
func (s *stack) main(
	ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option,
) error {
	opts = append(opts, cluster.WithListening(func(n *cluster.Node) { s.watch.add(i, n) }))
	s.joined[i].Store(false)
	starting := ctx
	if s.store != nil {
		starting = store.NewContext(ctx, s.store(i))
	}
	if s.patience > 0 {
		var cancel context.CancelFunc
		starting, cancel = context.WithTimeout(starting, s.patience)
		defer cancel()
	}
	n, err := cluster.Start(starting, cfg, opts...)
	if err != nil {
		return err
	}
	s.joined[i].Store(true)
	select {
	case <-ctx.Done():
	case <-n.Done():
	}
	return n.Close()
}

// isolate drops all packets from and to a host.
func (s *stack) isolate(i int) { s.Partition([]int{i}) }

// suspend pauses a node and stops checking it.
func (s *stack) suspend(i int) {
	s.t.Helper()
	s.watch.freeze(s.Node(i), true)
	s.Pause(i)
}

// resume undoes suspend.
func (s *stack) resume(i int) {
	s.t.Helper()
	s.Resume(i)
	s.watch.freeze(s.Node(i), false)
}

// others lists the first five hosts except those named.
func others(but ...int) (hosts []int) {
	for i := range 5 {
		if !slices.Contains(but, i) {
			hosts = append(hosts, i)
		}
	}
	return hosts
}

// betweenBeats waits until half an interval after the leader's last keep-alives, which all members
// have answered. It returns the time when they were sent; the lease began at that time (protocol.md
// section 5).
func (s *stack) betweenBeats(leader int) (beat time.Time) {
	s.t.Helper()
	interval := lan().HeartbeatInterval
	for {
		beat = s.term(leader).Deadline().Add(-message.LeaseMargin(lan().LeaseTimeout))
		switch wait := interval/2 - time.Since(beat); {
		case wait == 0:
			return beat
		case wait > 0:
			time.Sleep(wait)
		default:
			time.Sleep(wait + interval)
		}
		s.leader()
	}
}

// term returns the latest term that a node shows.
func (s *stack) term(i int) leader.Term {
	s.t.Helper()
	term, _ := s.Node(i).Leader()
	return term
}

// leader returns the node that has authority now, or -1.
func (s *stack) leader() int {
	s.t.Helper()
	if i, ok := s.Leading(); ok {
		return i
	}
	return -1
}

// token returns the version of the leader, or 0.
func (s *stack) token() uint64 {
	s.t.Helper()
	if i, ok := s.Leading(); ok {
		return s.term(i).Token().Version
	}
	return 0
}

// settled reports whether all nodes are running and form one cluster.
func (s *stack) settled() bool {
	s.t.Helper()
	return s.Settled() && len(s.Running()) == s.size
}

// another reports whether a node other than the given one has authority.
func (s *stack) another(old int) func() bool {
	return func() bool {
		l := s.leader()
		return l >= 0 && l != old
	}
}

// shows reports whether node i shows another node with the given status.
func (s *stack) shows(i, other int, status member.Status) bool {
	m, _ := s.Node(i).View().Member(s.Address(other))
	return m.Status == status
}

// calm is the state of nodes that must not be disturbed.
type calm struct {
	s     *stack
	terms map[int]leader.Term
}

// calm starts watching nodes. They must keep their leader and must not lose each other.
func (s *stack) calm(nodes ...int) calm {
	c := calm{s, make(map[int]leader.Term)}
	for _, i := range nodes {
		term, ok := s.Node(i).Leader()
		if !ok {
			s.t.Fatalf("node %d shows no leader%s", i, s)
		}
		c.terms[i] = term
	}
	return c
}

// holds fails the test if a term ended, or if one of the nodes does not show another one as
// active.
func (c calm) holds() {
	c.s.t.Helper()
	for i, term := range c.terms {
		if err := term.Err(); err != nil {
			c.s.t.Fatalf("node %d was disturbed: its term ended: %v%s", i, err, c.s)
		}
		for other := range c.terms {
			if !c.s.shows(i, other, member.Active) {
				c.s.t.Fatalf("node %d was disturbed: it shows node %d as not active%s", i, other, c.s)
			}
		}
	}
}

// rest lets time pass while nothing is disturbed.
func (c calm) rest(d time.Duration) {
	c.s.t.Helper()
	for begin := time.Now(); time.Since(begin) < d; c.holds() {
		c.s.Advance(restStep)
	}
}
