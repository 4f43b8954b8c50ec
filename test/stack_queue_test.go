// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// TestStackFairMutex crashes a waiting member, then the holder of a fair mutex. The other members
// still get the mutex in the order of their calls, each with a greater token. A crash delays the
// next member at most until the records of the crashed member end.
func TestStackFairMutex(t *testing.T) {
	t.Parallel()
	athenatest.Run(t, athenatest.Options{Size: 5}, func(t *testing.T, c *athenatest.Cluster) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		type served struct {
			node  int
			token member.Token
		}
		began, release := make(chan served, 5), make(chan struct{})
		ended := make(chan error, 5)
		order := rand.Perm(5)
		for _, i := range order {
			s, err := lock.NewSemaphore(c.Node(i).Records(), "one", 1)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				ended <- s.Do(ctx, func(ctx context.Context, term leader.Term) error {
					began <- served{i, term.Token()}
					select {
					case <-release:
					case <-ctx.Done():
					}
					return context.Cause(ctx)
				})
			}()
			c.Advance(100 * time.Millisecond)
		}
		var got []int
		var last member.Token
		next := func(limit time.Duration) {
			t.Helper()
			c.Within(limit, "next holder", func() bool { return len(began) > 0 })
			s := <-began
			if !last.Less(s.token) {
				t.Errorf("node %d: token %v after %v", s.node, s.token, last)
			}
			got, last = append(got, s.node), s.token
		}
		next(0)
		c.Crash(order[1])
		release <- struct{}{}
		next(3 * time.Second)
		c.Crash(order[2])
		next(3 * time.Second)
		release <- struct{}{}
		next(100 * time.Millisecond)
		release <- struct{}{}
		if want := slices.Delete(slices.Clone(order), 1, 2); !slices.Equal(got, want) {
			t.Errorf("the members %v got the mutex, want %v", got, want)
		}
		crashes := 0
		for range order {
			if err := <-ended; err != nil {
				crashes++
			}
		}
		if crashes != 2 {
			t.Errorf("%d calls failed, want those of the 2 members that crashed", crashes)
		}
	})
}

// TestStackPermits runs callers of a semaphore on all members. Meanwhile members crash, so that
// outcomes of commits are unknown, and an operator drops permits. Never more callers than permits
// run, each caller whose member lives is served, and no record is left.
func TestStackPermits(t *testing.T) {
	t.Parallel()
	seeds := 6
	if testing.Short() {
		seeds = 1
	}
	for _, permits := range []int{1, 2, 3, 5, 8} {
		for seed := range seeds {
			athenatest.Run(t, athenatest.Options{Size: 3}, func(t *testing.T, c *athenatest.Cluster) {
				p := &permitTest{t: t, c: c, permits: permits, r: rand.New(rand.NewPCG(uint64(seed), 39))}
				p.runCallers()
			})
			if t.Failed() {
				t.Fatalf("permits %d, seed %d", permits, seed)
			}
		}
	}
}

type permitTest struct {
	t       *testing.T
	c       *athenatest.Cluster
	r       *rand.Rand
	permits int
	handles [3]*lock.Semaphore // that the callers of a member share
	calls   []*permitCall

	mu    sync.Mutex
	spans []context.Context // of the functions that run
}

// permitCall is a call of Do on a node.
type permitCall struct {
	node   int
	ended  chan error
	served bool // its function has run
	gone   bool // its node has crashed
}

func (p *permitTest) open(node int) *lock.Semaphore {
	s, err := lock.NewSemaphore(p.c.Node(node).Records(), "job/some", p.permits)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// beginCall starts a call of Do, on the handle of its member or on one of its own.
func (p *permitTest) beginCall(node int) {
	s := p.handles[node]
	if s == nil || p.r.IntN(2) == 0 {
		s = p.open(node)
	}
	if p.handles[node] == nil {
		p.handles[node] = s
	}
	call := &permitCall{node: node, ended: make(chan error, 1)}
	p.calls = append(p.calls, call)
	holds := time.Duration(p.r.IntN(100)) * time.Millisecond
	go func() {
		call.ended <- s.Do(p.t.Context(), func(ctx context.Context, _ leader.Term) error {
			ctx, end := context.WithTimeout(ctx, holds)
			defer end()
			p.mu.Lock()
			call.served = true
			p.spans = append(slices.DeleteFunc(p.spans, func(c context.Context) bool {
				return c.Err() != nil
			}), ctx)
			if len(p.spans) > p.permits {
				p.t.Errorf("%d callers hold %d permits", len(p.spans), p.permits)
			}
			p.mu.Unlock()
			<-ctx.Done()
			return nil
		})
	}()
}

// runCallers begins calls and disturbs them, and waits until all have ended.
func (p *permitTest) runCallers() {
	operator := p.c.Node(0).Records().Session(nil)
	for range 30 {
		node := p.r.IntN(3)
		p.beginCall(node)
		switch p.r.IntN(20) {
		case 0:
			p.c.Crash(node)
			for _, call := range p.calls {
				call.gone = call.gone || call.node == node
			}
			p.handles[node] = nil
			p.c.Advance(time.Duration(p.r.IntN(500)) * time.Millisecond)
			p.c.Restart(node)
			p.c.WaitSettled()
			operator = p.c.Node(node).Records().Session(nil)
		case 1, 2: // drop a permit, whose holder is revoked
			for _, r := range p.listRecords() {
				_, _ = operator.Commit(p.t.Context(), record.Op{Kind: record.Drop, Key: r.Key})
				break
			}
		}
		p.c.Advance(time.Duration(p.r.IntN(60)) * time.Millisecond)
	}
	for i, call := range p.calls {
		p.c.Within(time.Minute, fmt.Sprintf("end of call %d", i), func() bool {
			return len(call.ended) > 0
		})
		if err := <-call.ended; !call.gone && (err != nil || !call.served) {
			p.t.Errorf("call %d ended with %v", i, err)
		}
	}
	p.c.Within(time.Minute, "end of the records", func() bool { return len(p.listRecords()) == 0 })
}

func (p *permitTest) listRecords() []member.Record {
	all, err := p.c.Node(p.c.Leader()).Records().List(p.t.Context(), "latch/")
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}
