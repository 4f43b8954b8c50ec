// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/programs"
	"github.com/athena-go/athena/transport"
)

// faulty is a network that loses or delays messages between nodes, except the greetings of new
// connections.
type faulty struct {
	transport.Network
	lost  float64 // share of lost messages
	delay time.Duration
	seed  uint64
	conns *atomic.Uint64
}

func (f faulty) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	c, err := f.Network.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	return f.conn(c), nil
}

func (f faulty) Accept() (transport.Conn, error) {
	c, err := f.Network.Accept()
	if err != nil {
		return nil, err
	}
	return f.conn(c), nil
}

func (f faulty) conn(c transport.Conn) transport.Conn {
	draws := rand.New(rand.NewPCG(f.seed, f.conns.Add(1)))
	return faultyConn{c, &faultyStream{FrameStream: c.Stream(transport.System), of: f, draws: draws}}
}

type faultyConn struct {
	transport.Conn
	system *faultyStream
}

func (c faultyConn) Stream(k transport.Kind) transport.FrameStream {
	if k == transport.System {
		return c.system
	}
	return c.Conn.Stream(k)
}

// faultyStream loses or delays whole writes, each of which consists of complete frames.
type faultyStream struct {
	transport.FrameStream
	of      faulty
	mu      sync.Mutex
	draws   *rand.Rand
	greeted bool
}

func (s *faultyStream) loses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	greeted := s.greeted
	s.greeted = true
	return greeted && s.draws.Float64() < s.of.lost
}

func (s *faultyStream) Write(p []byte) (int, error) {
	if s.loses() {
		return len(p), nil
	}
	<-time.After(s.of.delay)
	return s.FrameStream.Write(p)
}

func (s *faultyStream) TryWrite(p []byte) (bool, error) {
	if s.of.delay > 0 {
		return false, nil
	}
	if s.loses() {
		return true, nil
	}
	return s.FrameStream.TryWrite(p)
}

func inFaultyWorld(t *testing.T, f faulty, test func(*testing.T, *world)) {
	t.Helper()
	f.conns = &atomic.Uint64{}
	inWorldWith(t, Members, func(n transport.Network) transport.Network {
		f := f
		f.Network = n
		return f
	}, test)
}

// TestUnderLoss runs scenarios L1, L4, L5 and L26 while a tenth of all messages is lost.
func TestUnderLoss(t *testing.T) {
	const seeds = 15
	for name, play := range map[string]func(*testing.T, *world){
		"L01TenContenders": func(t *testing.T, w *world) {
			tenContenders(t, w.all())
		},
		"L04HolderCrashes": func(t *testing.T, w *world) {
			takesOver(t, w, func(holder int) {
				if err := w.nodes[holder].Close(); err != nil {
					t.Fatal(err)
				}
			})
		},
		"L05HolderIsCutOff": func(t *testing.T, w *world) {
			takesOver(t, w, w.cut)
		},
		"L26AnotherLeadsTheCluster": func(t *testing.T, w *world) {
			takesOver(t, w, func(holder int) {
				if err := w.nodes[w.leader()].Transfer(t.Context(), address(holder)); err != nil {
					t.Log(err) // the node may no longer lead
				}
				programs.Pause(t, 3*hold)
				w.cut(holder)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					inFaultyWorld(t, faulty{lost: 0.1, seed: seed}, play)
				})
			}
		})
	}
}

// takesOver opens a job on all nodes, stops the holder, and checks that another node leads.
func takesOver(t *testing.T, w *world, stop func(holder int)) {
	t.Helper()
	var x Exclusive
	type led struct {
		by int
		start
	}
	leads := make(chan led, 10_000)
	for i := range w.nodes {
		j := w.job(i)
		worker := work(t, &x, j)
		go func() {
			for s := range worker.began {
				leads <- led{i, s}
			}
		}()
		t.Cleanup(func() {
			worker.stop()
			<-worker.done
			close(worker.began)
		})
	}
	next := func(not int) led {
		t.Helper()
		for {
			select {
			case l := <-leads:
				if l.by != not {
					return l
				}
			case <-time.After(time.Minute):
				t.Fatal("no member leads within a minute")
			}
		}
	}
	first := next(-1)
	stop(first.by)
	if second := next(first.by); second.token.Less(first.token) {
		t.Errorf("token %v after %v", second.token, first.token)
	}
}

// all returns the stores of all nodes.
func (w *world) all() (all []record.Store) {
	for _, n := range w.nodes {
		all = append(all, n.Records())
	}
	return all
}

// L1: no member starves. One member is the leader of the cluster. It reaches the table without the
// network, so it can retry immediately.
func TestL01NobodyStarves(t *testing.T) {
	inFaultyWorld(t, faulty{delay: 3 * time.Millisecond}, func(t *testing.T, w *world) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		ran := make([]int, len(w.nodes))
		var all sync.WaitGroup
		for i, s := range w.all() {
			l := lockOf(t, s)
			all.Go(func() {
				for ctx.Err() == nil {
					_ = l.Do(ctx, func(context.Context, leader.Term) error {
						ran[i]++
						programs.Pause(t, 5*time.Millisecond)
						return nil
					})
				}
			})
		}
		all.Wait()
		if slices.Min(ran) < slices.Max(ran)/4 || slices.Max(ran) < 100 {
			t.Errorf("the members had the latch %d times in 10 s; the leader is %d", ran, w.leader())
		}
	})
}
