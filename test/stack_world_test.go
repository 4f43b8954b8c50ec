// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
	"github.com/athena-go/athena/transport/transporttest"
)

const (
	// stackHosts is how many processes there may be.
	stackHosts = 5
	// How often a stack is looked at while something is awaited, and while nothing
	// may be disturbed. What lasts shorter is for its watch to see.
	stackStep = time.Millisecond
	restStep  = 50 * time.Millisecond
)

// stack is a cluster of whole nodes in one bubble: the API, QUIC, TLS and files
// are real, packets and time are not. A watch looks after all of them.
type stack struct {
	t       *testing.T
	packets *transporttest.PacketNet
	size    int
	seeds   int                            // the first so many are seeds
	memory  bool                           // no store outlives its process
	change  func(i int, c *cluster.Config) // of what is usual; nil for nothing
	dir     string                         // of the stores
	// options are those of a node beside the usual ones; nil for none.
	options   func(i int) []cluster.Option
	processes [stackHosts]stackProcess
	ghosts    sync.WaitGroup
	watch     *watch
	token     uint64 // of the last leader that was looked at
}

// stackProcess is what runs at one address.
type stackProcess struct {
	run      int // grows with every kill
	pauser   *pauser
	starting chan stackStarted // nil unless Start is under way
	cancel   context.CancelFunc
	node     *cluster.Node // nil until Start has returned
	term     cluster.Term  // the newest that the node showed
}

type stackStarted struct {
	node *cluster.Node
	err  error
}

// inStack runs a test in a bubble. All of size nodes are seeds; none runs yet.
func inStack(t *testing.T, size int, test func(*testing.T, *stack)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stack{
			t: t, size: size, seeds: size, dir: t.TempDir(),
			packets: transporttest.NewPacketNet(roundTrip / 2),
			watch:   newWatch(t),
		}
		defer func() {
			for i := range s.processes {
				s.kill(i)
			}
			s.ghosts.Wait()
			s.watch.left.Wait()
		}()
		test(t, s)
	})
}

// inFormedStack runs a test with nodes that are one cluster, at rest.
func inFormedStack(t *testing.T, size int, test func(*testing.T, *stack)) {
	t.Helper()
	inStack(t, size, func(t *testing.T, s *stack) {
		s.form()
		test(t, s)
	})
}

func (s *stack) form() {
	s.t.Helper()
	for i := range s.size {
		s.start(i)
	}
	s.within(10*time.Second, "one cluster", s.settled)
	s.rest(time.Second)
}

func stackAddress(i int) member.Address {
	return member.Address{Host: fmt.Sprintf("10.0.0.%d", i+1), Port: 7000}
}

// store is the directory of the present run at an address, or of the next one.
func (s *stack) store(i int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%d-%d", i, s.processes[i].run))
}

func (s *stack) config(i int) cluster.Config {
	c := cluster.DefaultConfig()
	c.Addr, c.Name, c.Size = stackAddress(i).String(), fmt.Sprint("n", i), s.size
	c.Secret = []byte("the secret of this cluster")
	for seed := range s.seeds {
		c.Seeds = append(c.Seeds, stackAddress(seed).String())
	}
	if !s.memory {
		c.DataDir = s.store(i)
	}
	if s.change != nil {
		s.change(i, &c)
	}
	return c
}

// open is cluster.Start in this world.
func (s *stack) open(ctx context.Context, i int) (*cluster.Node, error) {
	g := &pauser{}
	s.processes[i].pauser = g
	options := []cluster.Option{
		cluster.WithSocket(func(addr string) (net.PacketConn, error) {
			socket, err := s.packets.Open(addr)
			return pausedSocket{transporttest.Socket{PacketConn: socket}, g}, err
		}),
		cluster.WithClock(g.now), cluster.WithLogger(zerolog.Nop()),
		cluster.WithListening(func(n *cluster.Node) { s.watch.add(i, n) }),
	}
	if s.options != nil {
		options = append(options, s.options(i)...)
	}
	return cluster.Start(ctx, s.config(i), options...)
}

// start begins a process and does not wait until it is a member.
func (s *stack) start(i int) {
	ctx, cancel := context.WithCancel(s.t.Context())
	started := make(chan stackStarted, 1)
	p := &s.processes[i]
	*p = stackProcess{starting: started, cancel: cancel, run: p.run}
	go func() {
		n, err := s.open(ctx, i)
		started <- stackStarted{n, err}
	}()
}

// kill ends a process, if there is one: nothing is heard from it any more, and
// its store stays as it is at this moment. A node cannot end that suddenly, so
// what is left of it goes on in the background, with a store of its own.
func (s *stack) kill(i int) {
	s.t.Helper()
	synctest.Wait()
	p := &s.processes[i]
	if p.cancel == nil {
		return
	}
	s.resume(i)
	s.packets.Kill(stackAddress(i))
	before := s.store(i)
	p.run++
	s.copyStore(before, s.store(i))
	p.cancel()
	ghost := *p
	s.ghosts.Go(func() {
		if ghost.starting != nil {
			ghost.node = (<-ghost.starting).node
		}
		if ghost.node == nil {
			return
		}
		if err := ghost.node.Close(); err != nil {
			s.t.Errorf("node %d: Close: got %v, want nil", i, err)
		}
	})
	*p = stackProcess{run: p.run}
}

func (s *stack) copyStore(from, to string) {
	s.t.Helper()
	files, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return // in memory
	}
	err = errors.Join(err, os.Mkdir(to, 0o700))
	for _, f := range files {
		content, unread := os.ReadFile(filepath.Join(from, f.Name()))
		err = errors.Join(err, unread, os.WriteFile(filepath.Join(to, f.Name()), content, 0o600))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// isolate takes all packets from and to a host; heal lets them pass again.
func (s *stack) isolate(i int) { s.splitOff(s.packets.Cut, i) }
func (s *stack) heal(i int)    { s.splitOff(s.packets.Heal, i) }

// splitOff changes the links between some hosts and all others.
func (s *stack) splitOff(change func(from, to member.Address), side ...int) {
	for _, i := range side {
		for _, other := range others(side...) {
			change(stackAddress(i), stackAddress(other))
			change(stackAddress(other), stackAddress(i))
		}
	}
}

// others lists the hosts that are not named.
func others(but ...int) (hosts []int) {
	for i := range stackHosts {
		if !slices.Contains(but, i) {
			hosts = append(hosts, i)
		}
	}
	return hosts
}

// betweenBeats waits until half an interval after the leader's last keep-alives,
// which all have answered, and returns when it sent them: its lease counts from
// there (protocol.md section 5).
func (s *stack) betweenBeats(leader int) (beat time.Time) {
	s.t.Helper()
	interval := lan().HeartbeatInterval
	for {
		beat = s.processes[leader].term.Deadline().Add(-message.LeaseMargin(lan().LeaseTimeout))
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

// node is one that runs.
func (s *stack) node(i int) *cluster.Node {
	s.t.Helper()
	if s.processes[i].node == nil {
		s.t.Fatalf("node %d does not run", i)
	}
	return s.processes[i].node
}

// leader is the node that has authority at this moment, -1 for none.
func (s *stack) leader() int {
	s.t.Helper()
	synctest.Wait()
	leader := -1
	for i := range s.processes {
		p := &s.processes[i]
		s.collect(i, p)
		if p.node == nil || p.pauser.isShut() || p.node.Err() != nil {
			continue
		}
		if term, ok := p.node.Leader(); ok {
			p.term = term
		}
		if !p.term.Valid() {
			continue
		}
		leader, s.token = i, p.term.Token()
	}
	return leader
}

// collect takes what a Start came to.
func (s *stack) collect(i int, p *stackProcess) {
	s.t.Helper()
	select {
	case got := <-p.starting:
		if got.err != nil {
			s.t.Fatalf("node %d: Start: %v", i, got.err)
		}
		p.starting, p.node = nil, got.node
	default:
	}
}

// settled reports whether all processes that run are one whole cluster.
func (s *stack) settled() bool {
	s.t.Helper()
	leader := s.leader()
	if leader < 0 {
		return false
	}
	token, running := s.processes[leader].term.Token(), 0
	for i := range s.processes {
		p := &s.processes[i]
		if p.starting != nil {
			return false
		}
		if p.node == nil {
			continue
		}
		running++
		v := p.node.View()
		if !v.Quorate || v.Leader != stackAddress(leader) || v.Version != token ||
			v.Members.Count(member.Active) != s.size {
			return false
		}
	}
	return running == s.size
}

// within lets time pass until cond holds, and returns how long that took.
func (s *stack) within(limit time.Duration, what string, cond func() bool) time.Duration {
	s.t.Helper()
	begin := time.Now()
	for s.leader(); !cond(); s.leader() {
		if time.Since(begin) >= limit {
			s.t.Fatalf("within %v: got no %s%s", limit, what, s)
		}
		time.Sleep(stackStep)
	}
	return time.Since(begin)
}

// rest lets time pass.
func (s *stack) rest(d time.Duration) {
	s.t.Helper()
	time.Sleep(d)
	s.leader()
}

// another reports whether a node other than old has authority.
func (s *stack) another(old int) func() bool {
	return func() bool {
		l := s.leader()
		return l >= 0 && l != old
	}
}

// shows reports whether node i shows another one in a status.
func (s *stack) shows(i, other int, status member.Status) bool {
	m, _ := s.node(i).View().Member(stackAddress(other))
	return m.Status == status
}

// String shows what every node shows, for a test that fails.
func (s *stack) String() string {
	var b strings.Builder
	for i := range s.processes {
		switch p := &s.processes[i]; {
		case p.starting != nil:
			fmt.Fprintf(&b, "\nnode %d is starting", i)
		case p.node != nil:
			fmt.Fprintf(&b, "\nnode %d: valid %v, %+v", i, p.term.Valid(), p.node.View())
		}
	}
	return b.String()
}

// calm is what some nodes show that nothing must disturb.
type calm struct {
	s     *stack
	terms map[int]cluster.Term
}

// calm begins to look after nodes that are to keep their leader and each other.
func (s *stack) calm(nodes ...int) calm {
	c := calm{s, make(map[int]cluster.Term)}
	for _, i := range nodes {
		term, ok := s.node(i).Leader()
		if !ok {
			s.t.Fatalf("node %d shows no leader%s", i, s)
		}
		c.terms[i] = term
	}
	return c
}

// holds fails the test when a term ended, or one of the nodes does not show
// another one as active.
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
		c.s.rest(restStep)
	}
}
