// SPDX-License-Identifier: Apache-2.0

package athenatest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
)

// workFunc is a function of a term.
type workFunc = func(ctx context.Context, term leader.Term) error

// held lists what a member can lose when it leaves. Each function runs work while its node holds
// that.
var held = map[string]func(ctx context.Context, n *cluster.Node, work workFunc) error{
	"lock": func(ctx context.Context, n *cluster.Node, work workFunc) error {
		l, err := lock.New(n.Records(), "lock")
		if err != nil {
			return err
		}
		return l.Do(ctx, work)
	},
	"permit": func(ctx context.Context, n *cluster.Node, work workFunc) error {
		s, err := lock.NewSemaphore(n.Records(), "permit", 1)
		if err != nil {
			return err
		}
		return s.Do(ctx, work)
	},
	"read-write lock": func(ctx context.Context, n *cluster.Node, work workFunc) error {
		l, err := lock.NewRWLock(n.Records(), "rw")
		if err != nil {
			return err
		}
		return l.DoWrite(ctx, work)
	},
	"job": func(ctx context.Context, n *cluster.Node, work workFunc) error {
		return leadJob(ctx, n, "job", work)
	},
	"shard": func(ctx context.Context, n *cluster.Node, work workFunc) error {
		return ownShard(ctx, n, "shards", work)
	},
	"cluster": func(ctx context.Context, n *cluster.Node, work workFunc) error {
		return n.WhileLeader(ctx, work)
	},
}

func leadJob(ctx context.Context, n *cluster.Node, name string, work workFunc) error {
	j, err := election.OpenJob(ctx, n.Records(), name, election.JobOptions{})
	if err != nil {
		return err
	}
	return errors.Join(j.WhileLeader(ctx, work), j.Close(context.WithoutCancel(ctx)))
}

// ownShard takes part in a set of one shard.
func ownShard(ctx context.Context, n *cluster.Node, name string, work workFunc) error {
	s, err := election.NewShards(n.Records(), name, 1)
	if err != nil {
		return err
	}
	return s.Run(ctx, func(ctx context.Context, _ int, term leader.Term) error {
		return work(ctx, term)
	})
}

// handing is a node that holds everything in held and then leaves, and two that wait for it.
type handing struct {
	mu       sync.Mutex
	returned map[string]time.Time // when the function of the leaving node returned
	taken    map[string]time.Time // when that of another node began
}

// holdAll runs a function on node n for each of held. It needs the given time to return after its
// context has ended.
func (h *handing) holdAll(ctx context.Context, n *cluster.Node, cleanup map[string]time.Duration) {
	for what, hold := range held {
		go hold(ctx, n, func(ctx context.Context, _ leader.Term) error {
			<-ctx.Done()
			<-time.After(cleanup[what])
			h.mu.Lock()
			defer h.mu.Unlock()
			h.returned[what] = time.Now()
			return nil
		})
	}
}

// takeAll waits on node n for each of held.
func (h *handing) takeAll(ctx context.Context, n *cluster.Node) {
	for what, hold := range held {
		go hold(ctx, n, func(ctx context.Context, _ leader.Term) error {
			h.mu.Lock()
			if _, again := h.taken[what]; !again {
				h.taken[what] = time.Now()
			}
			h.mu.Unlock()
			<-ctx.Done()
			return nil
		})
	}
}

// leaves lets the leader of a cluster hold everything, and leave. It returns when Leave began, how
// long it took, and its error.
func leaves(
	t *testing.T, c *athenatest.Cluster, limit time.Duration, cleanup map[string]time.Duration,
) (h *handing, began time.Time, took time.Duration, err error) {
	t.Helper()
	h = &handing{returned: map[string]time.Time{}, taken: map[string]time.Time{}}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	boss := c.Leader()
	n := c.Node(boss)
	h.holdAll(ctx, n, cleanup)
	c.Advance(5 * time.Second)
	h.takeAll(ctx, c.Node((boss+1)%3))
	h.takeAll(ctx, c.Node((boss+2)%3))
	c.Advance(5 * time.Second)
	if len(h.taken) > 0 {
		t.Fatalf("taken before the leader leaves: %v", h.taken)
	}
	began = time.Now()
	bound, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = n.Leave(bound)
	took = time.Since(began)
	c.Advance(30 * time.Second)
	return h, began, took, err
}

// Leave ends all terms, and waits for their functions. Only then does another member hold what the
// node held.
func TestLeaveWaitsForWork(t *testing.T) {
	for slow := range held {
		t.Run(slow, func(t *testing.T) {
			athenatest.Run(t, athenatest.Options{Size: 3}, func(t *testing.T, c *athenatest.Cluster) {
				const cleanup = 5 * time.Second
				h, began, took, err := leaves(t, c, 10*time.Second, map[string]time.Duration{slow: cleanup})
				if err != nil || took < cleanup || took > cleanup+time.Second {
					t.Errorf("Leave took %v and returned %v, want nil after the functions", took, err)
				}
				for what := range held {
					returned, taken := h.returned[what], h.taken[what]
					if returned.IsZero() || taken.Before(returned) {
						t.Errorf("%s: taken %v after the leave began, the function had returned after %v", what,
							taken.Sub(began), returned.Sub(began))
					}
					// The others do not wait for the slow function.
					if wait := taken.Sub(returned); wait > 3*time.Second {
						t.Errorf("%s: taken only %v after its function had returned", what, wait)
					}
				}
			})
		})
	}
}

// If its context is done first, Leave leaves without the functions that still run.
func TestLeaveWithoutItsWork(t *testing.T) {
	athenatest.Run(t, athenatest.Options{Size: 3}, func(t *testing.T, c *athenatest.Cluster) {
		const limit = 2 * time.Second
		boss := c.Node(c.Leader())
		slow := map[string]time.Duration{}
		for what := range held {
			slow[what] = time.Minute
		}
		h, began, took, err := leaves(t, c, limit, slow)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(boss.Err(), cluster.ErrLeft) ||
			took < limit || took > limit+100*time.Millisecond {
			t.Errorf("Leave took %v and returned %v, Err %v; want it to leave when its context is done",
				took, err, boss.Err())
		}
		for what := range held {
			if after := h.taken[what].Sub(began); after < limit || after > limit+3*time.Second {
				t.Errorf("%s: taken after %v, want after %v", what, after, limit)
			}
		}
		c.Advance(time.Minute)
	})
}

// A node that waits for its work before it leaves takes no further records, which it could not use:
// other members get the jobs and shards that become free meanwhile.
func TestLeavingNodeTakesNoRecords(t *testing.T) {
	for name, run := range map[string]func(context.Context, *cluster.Node, string, workFunc) error{
		"jobs": leadJob, "shards": ownShard,
	} {
		t.Run(name, func(t *testing.T) {
			athenatest.Run(t, athenatest.Options{Size: 3}, func(t *testing.T, c *athenatest.Cluster) {
				leavesWithoutTaking(t, c, run)
			})
		})
	}
}

func leavesWithoutTaking(t *testing.T, c *athenatest.Cluster,
	run func(context.Context, *cluster.Node, string, workFunc) error,
) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	// Of members with equal loads the first one gets a shard.
	leaving, owner, other := c.Node(0), c.Node(1), c.Node(2)
	// The members try to lead a job in an order that depends on its name.
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	owning, free := context.WithCancel(ctx)
	for _, name := range names {
		go run(owning, owner, name, func(ctx context.Context, _ leader.Term) error {
			<-ctx.Done()
			return nil
		})
	}
	c.Advance(5 * time.Second)
	var got atomic.Int64
	for _, name := range names {
		go run(ctx, leaving, name, func(context.Context, leader.Term) error {
			t.Errorf("the node that leaves got %s", name)
			return nil
		})
		go run(ctx, other, name, func(ctx context.Context, _ leader.Term) error {
			got.Add(1)
			<-ctx.Done()
			return nil
		})
	}
	go held["lock"](ctx, leaving, func(context.Context, leader.Term) error {
		<-time.After(30 * time.Second)
		return nil
	})
	c.Advance(5 * time.Second)
	left := make(chan error, 1)
	go func() { left <- leaving.Leave(ctx) }()
	c.Advance(5 * time.Second)
	free()
	c.Advance(5 * time.Second)
	if n := int(got.Load()); len(left) > 0 || n != len(names) {
		t.Errorf("left: %d, the other member got %d of %d", len(left), n, len(names))
	}
	c.Advance(30 * time.Second)
	if err := <-left; err != nil {
		t.Errorf("Leave: %v", err)
	}
}
