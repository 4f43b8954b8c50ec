// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
)

// TestStackFairMutex crashes a waiting member, then the holder of a fair mutex. The other members
// still get the mutex in the order of their calls, each with a greater token. A crash delays the
// next member at most until the records of the crashed member end.
func TestStackFairMutex(t *testing.T) {
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
