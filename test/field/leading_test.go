// SPDX-License-Identifier: Apache-2.0

package field

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// newLock returns a lock at a node.
func newLock(t *testing.T, n *cluster.Node, name string) *lock.Lock {
	t.Helper()
	l, err := lock.New(n.Records(), name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestPausedLeaderEndsNoLock pauses the leader for up to a minute, while a follower holds a lock.
// The lock must not end (etcd-io/etcd#15247).
func TestPausedLeaderEndsNoLock(t *testing.T) {
	for _, pause := range []time.Duration{
		time.Second, 3 * time.Second, 15 * time.Second, time.Minute,
	} {
		athenatest.Run(t, athenatest.Options{Size: 3}, func(t *testing.T, c *athenatest.Cluster) {
			led := c.Leader()
			ctx, stop := context.WithCancel(t.Context())
			var ends atomic.Int64
			held, done := make(chan struct{}), make(chan struct{})
			l := newLock(t, c.Node((led+1)%3), "x")
			go func() {
				defer close(done)
				_ = l.Do(ctx, func(ctx context.Context, _ leader.Term) error {
					close(held)
					<-ctx.Done()
					ends.Add(1)
					return nil
				})
			}()
			<-held
			c.Advance(time.Second)
			c.Pause(led)
			c.Advance(pause)
			c.Resume(led)
			c.WaitSettled()
			c.Advance(10 * time.Second)
			if ends.Load() != 0 {
				t.Errorf("the leader was paused for %v: the lock of a follower has ended", pause)
			}
			stop()
			<-done
		})
	}
}

// TestTransferCutShort cuts the leader off at instants of a transfer. Once it leads again, it
// commits and transfers (hashicorp/raft#696).
func TestTransferCutShort(t *testing.T) {
	for at := time.Duration(0); at <= 12*time.Millisecond; at += 1500 * time.Microsecond {
		athenatest.Run(t, athenatest.Options{Size: 3}, func(t *testing.T, c *athenatest.Cluster) {
			led := c.Leader()
			n := c.Node(led)
			first := make(chan error, 1)
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			go func() { first <- n.Transfer(ctx, member.Address{}) }()
			c.Advance(at)
			c.Partition([]int{led})
			c.Advance(5 * time.Second)
			c.Heal()
			c.WaitSettled()
			<-first
			if other := c.Leader(); other != led {
				if err := c.Node(other).Transfer(ctx, c.Address(led)); err != nil {
					t.Fatalf("cut after %v: the transfer back: %v", at, err)
				}
				c.WaitSettled()
			}
			err := newLock(t, n, "x").Do(ctx, func(context.Context, leader.Term) error { return nil })
			if err != nil {
				t.Errorf("cut after %v: a lock under the leader that is back: %v", at, err)
			}
			if err := n.Transfer(ctx, member.Address{}); err != nil {
				t.Errorf("cut after %v: the next transfer: %v", at, err)
			}
		})
	}
}

type question struct{ N int }

// TestTransfersUnderLoad transfers leadership while every member locks and asks the leader all the
// time. No transfer, lock or request may fail (hashicorp/raft#581, hashicorp/vault#21473).
func TestTransfersUnderLoad(t *testing.T) {
	config := func(_ int, cfg *cluster.Config) {
		cfg.Receiver = receiver.NewMux()
		receiver.HandleRequest(cfg.Receiver,
			func(_ context.Context, _ member.Member, q question) (question, error) { return q, nil })
	}
	options := athenatest.Options{Size: 3, Config: config}
	athenatest.Run(t, options, func(t *testing.T, c *athenatest.Cluster) {
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		note := func(what string, err error) {
			if err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		for i := range 3 {
			n := c.Node(i)
			for k := range 2 {
				l := newLock(t, n, fmt.Sprint(i, k))
				all.Go(func() {
					for ctx.Err() == nil {
						note("Do", l.Do(ctx, func(context.Context, leader.Term) error { return nil }))
					}
				})
			}
			all.Go(func() {
				for ctx.Err() == nil {
					_, err := cluster.RequestLeader[question](ctx, n, question{1})
					note("RequestLeader", err)
					<-time.After(5 * time.Millisecond)
				}
			})
		}
		for range 8 {
			c.Advance(500 * time.Millisecond)
			note("Transfer", c.Node(c.Leader()).Transfer(ctx, member.Address{}))
		}
		stop()
		all.Wait()
	})
}

// TestEverySetOfCuts cuts each set of directions among three nodes. There is a leader exactly if
// two nodes hear each other, and it stays the same (dledger#25, old-raft-rs#27).
func TestEverySetOfCuts(t *testing.T) {
	links := [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {1, 2}, {2, 1}}
	step := 1
	if testing.Short() {
		step = 4
	}
	for cuts := 1; cuts < 1<<len(links); cuts += step {
		athenatest.Run(t, athenatest.Options{Size: 3}, func(t *testing.T, c *athenatest.Cluster) {
			want := false
			for i, l := range links {
				if cuts>>i&1 == 1 {
					c.Cut(l[0], l[1])
				}
				want = want || i%2 == 0 && cuts>>i&3 == 0
			}
			c.Advance(8 * time.Second)
			led, ok := c.Leading()
			if ok != want {
				t.Fatalf("cuts %06b: a leader: %v, want %v\n%s", cuts, ok, want, c)
			}
			if ok {
				token := c.Node(led).Status().Token
				c.Advance(8 * time.Second)
				if again, ok := c.Leading(); !ok || c.Node(again).Status().Token != token {
					t.Errorf("cuts %06b: the leader changes, although no link does\n%s", cuts, c)
				}
			}
			c.Heal()
			c.WaitSettled()
		})
	}
}
