// SPDX-License-Identifier: Apache-2.0

package latchtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/athena-go/athena/latch"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// lossy is a network that loses messages between nodes, and none of the greets by which
// connections begin.
type lossy struct {
	transport.Network
	seed  uint64
	conns *atomic.Uint64
}

// lost is the share of messages that lossy loses.
const lost = 0.1

func (l lossy) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	c, err := l.Network.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	return l.conn(c), nil
}

func (l lossy) Accept() (transport.Conn, error) {
	c, err := l.Network.Accept()
	if err != nil {
		return nil, err
	}
	return l.conn(c), nil
}

func (l lossy) conn(c transport.Conn) transport.Conn {
	draws := rand.New(rand.NewPCG(l.seed, l.conns.Add(1)))
	return lossyConn{c, &lossyStream{FrameStream: c.Stream(transport.System), draws: draws}}
}

type lossyConn struct {
	transport.Conn
	system *lossyStream
}

func (c lossyConn) Stream(k transport.Kind) transport.FrameStream {
	if k == transport.System {
		return c.system
	}
	return c.Conn.Stream(k)
}

// lossyStream loses what is written at once, which is whole frames.
type lossyStream struct {
	transport.FrameStream
	mu      sync.Mutex
	draws   *rand.Rand
	greeted bool
}

func (s *lossyStream) loses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	greeted := s.greeted
	s.greeted = true
	return greeted && s.draws.Float64() < lost
}

func (s *lossyStream) Write(p []byte) (int, error) {
	if s.loses() {
		return len(p), nil
	}
	return s.FrameStream.Write(p)
}

func (s *lossyStream) TryWrite(p []byte) (bool, error) {
	if s.loses() {
		return true, nil
	}
	return s.FrameStream.TryWrite(p)
}

// TestUnderLoss plays L1, L4, L5 and L26 while a tenth of all messages is lost.
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
				leader := w.leader()
				if err := w.nodes[leader].Transfer(t.Context(), address(holder)); err != nil {
					t.Log(err) // it may be no leader at this instant
				}
				pause(t, 3*lease)
				w.cut(holder)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					inLossyWorld(t, seed, play)
				})
			}
		})
	}
}

// takesOver opens a job on all nodes, and wants another one to lead it once its holder is
// stopped.
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
				t.Fatal("nobody leads within a minute")
			}
		}
	}
	first := next(-1)
	stop(first.by)
	if second := next(first.by); second.token.Less(first.token) {
		t.Errorf("token %v after %v", second.token, first.token)
	}
}

func inLossyWorld(t *testing.T, seed uint64, test func(*testing.T, *world)) {
	t.Helper()
	conns := &atomic.Uint64{}
	between := func(n transport.Network) transport.Network { return lossy{n, seed, conns} }
	inWorldWith(t, Members, between, test)
}

// all are the stores of all nodes.
func (w *world) all() (all []latch.Store) {
	for _, n := range w.nodes {
		all = append(all, latch.Cluster(n))
	}
	return all
}
