// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"errors"
	"log"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/athena-go/athena/election"
)

// split is a transport on a network that can be split in two.
type split struct {
	memberlist.NodeAwareTransport
	high  bool
	parts *parts
}

// parts assigns members to the two parts.
type parts struct {
	cut  atomic.Bool
	mu   sync.Mutex
	high map[string]bool // set of addresses in one part
}

var errCut = errors.New("the network is cut")

func (s *split) reaches(addr string) bool {
	s.parts.mu.Lock()
	defer s.parts.mu.Unlock()
	return !s.parts.cut.Load() || s.parts.high[addr] == s.high
}

func (s *split) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if !s.reaches(a.Addr) {
		return time.Now(), nil
	}
	return s.NodeAwareTransport.WriteToAddress(b, a)
}

func (s *split) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	if !s.reaches(a.Addr) {
		return nil, errCut
	}
	return s.NodeAwareTransport.DialAddressTimeout(a, d)
}

// patience is the timeout of every wait. On a busy machine memberlist declares members dead because
// they get no CPU time. So the times are only printed here; TestPartition checks the bounds in
// virtual time.
const patience = 2 * time.Minute

// loopback is a fleet of nodes on real sockets.
type loopback struct {
	fleet
	parts  *parts
	seeds  []string
	timing election.Timing
	shrink time.Duration // divisor of the default timing
}

func (l *loopback) start(t *testing.T, i int) {
	t.Helper()
	real, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{"127.0.0.1"}, Logger: log.New(discard{}, "", 0),
	})
	if err != nil {
		t.Error(err)
		return
	}
	s := &split{real, i >= len(l.nodes)/2, l.parts}
	l.parts.mu.Lock()
	l.parts.high["127.0.0.1:"+strconv.Itoa(real.GetAutoBindPort())] = s.high
	l.parts.mu.Unlock()
	n, err := Start(t.Context(), Config{
		Name: name(i), Addr: "127.0.0.1:0", Seeds: l.seeds, Secret: []byte("sixteen bytes it"),
		Logger:         slog.New(slog.DiscardHandler),
		RejoinInterval: DefaultRejoinInterval / l.shrink,
		Tune: func(c *memberlist.Config) {
			c.Transport = s
			c.GossipInterval /= l.shrink
			c.PushPullInterval /= 5 * l.shrink // compensates for losses at the start
		},
	})
	if err != nil {
		t.Error(err)
		return
	}
	l.nodes[i] = n
	o := election.Options{Strategy: election.Lowest, Timing: l.timing}
	if l.all[i], err = n.Open("group", o); err != nil {
		t.Error(err)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// until waits for a condition and returns how long that took.
func (l *loopback) until(t *testing.T, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %v", patience, l)
		}
		<-look.C
	}
	return time.Since(began)
}

// most returns the largest number of members that any node knows.
func (l *loopback) most() (count int) {
	for _, n := range l.nodes {
		count = max(count, len(n.Members()))
	}
	return count
}

// one waits until these nodes follow the same leader.
func (l *loopback) one(t *testing.T, some []int) (leader int, after time.Duration) {
	t.Helper()
	after = l.until(t, func() bool { leader = l.leads(some); return leader >= 0 })
	return leader, after
}

// On real sockets, there is one leader. After it is killed, another member leads. Each half of a
// partitioned network has a leader. After the network heals, there is only one leader.
func TestLoopback(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute (make full)")
	}
	const size = 100
	l := &loopback{
		fleet: newFleet(size), parts: &parts{high: map[string]bool{}},
		timing: election.DefaultTiming(), shrink: 2, // with a larger divisor, two busy cores are too slow
	}
	for _, d := range []*time.Duration{
		&l.timing.Grace, &l.timing.Sample, &l.timing.Alive, &l.timing.Campaign, &l.timing.Hold,
	} {
		*d /= l.shrink
	}
	takeOver := l.timing.Alive + l.timing.Campaign
	t.Cleanup(l.close)
	began := time.Now()
	all, low, high := between(0, size), between(0, size/2), between(size/2, size)
	for i := range 3 { // the seeds
		l.start(t, i)
		l.seeds = append(l.seeds, l.nodes[i].Addr())
	}
	var starting sync.WaitGroup
	for i := range 8 {
		starting.Go(func() {
			for j := 3 + i; j < size; j += 8 {
				l.start(t, j)
			}
		})
	}
	starting.Wait()
	t.Logf("T %v, D %v: %d members started within %v", l.timing.Alive, l.timing.Campaign, size,
		time.Since(began))
	first, _ := l.one(t, all)
	t.Logf("they follow %s after %v", name(first), time.Since(began))

	mine, other := low, high
	if slices.Contains(high, first) {
		mine, other = high, low
	}
	l.parts.cut.Store(true)
	second, after := l.one(t, other)
	t.Logf("cut in two: %s leads the other half after %v (T + D is %v)", name(second), after, takeOver)
	after += l.until(t, func() bool { return l.most() <= size/2 })
	t.Logf("no node knows a member of the other half after %v", after)
	if l.leads(mine) < 0 {
		l.one(t, mine)
	}

	l.parts.cut.Store(false)
	met := l.until(t, func() bool { return l.most() > size/2 })
	after = l.until(t, func() bool { return l.leaders() == 1 })
	third, known := l.one(t, all)
	t.Logf("whole again: they meet after %v, %s leads alone after %v more (T/2 is %v), and all know "+
		"after %v more", met, name(third), after, l.timing.Alive/2, known)

	if err := l.nodes[third].Close(); err != nil {
		t.Error(err)
	}
	fourth, after := l.one(t, without(all, third))
	t.Logf("%s leads %v after %s was killed", name(fourth), after, name(third))
}
