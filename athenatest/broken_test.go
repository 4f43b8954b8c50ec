// SPDX-License-Identifier: Apache-2.0

package athenatest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
)

// broken is a biller that ignores its context: once it leads, it works until its node ends.
type broken struct{ ledger *athenatest.Register }

func (b broken) main(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
	node, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	defer node.Leave(context.WithoutCancel(ctx))
	return node.WhileLeader(ctx, func(_ context.Context, term leader.Term) error {
		for node.Err() == nil && ctx.Err() == nil {
			_ = b.ledger.Write(term.Token(), fmt.Sprint("charged by node ", i))
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	})
}

// scenario returns the scenario of the package with this name.
func scenario(t *testing.T, name string) athenatest.Scenario {
	t.Helper()
	for _, s := range athenatest.Scenarios() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no scenario %q", name)
	return athenatest.Scenario{}
}

// TestBrokenProgramIsCaught checks that the test of biller, after each scenario, distinguishes a
// correct program from a broken one.
func TestBrokenProgramIsCaught(t *testing.T) {
	for _, name := range []string{"split brain", "deaf leader", "leader pause"} {
		s := scenario(t, name)
		var ledger athenatest.Register
		athenatest.Run(t, athenatest.Options{Main: broken{&ledger}.main},
			func(t *testing.T, c *athenatest.Cluster) {
				s.Play(c)
				if len(ledger.Refused()) == 0 {
					t.Errorf("%s: a leader that never stops was not caught", s.Name)
				}
			})
	}
}

// failure is a testing.TB that records failures instead of failing.
type failure struct {
	testing.TB
	mu   sync.Mutex
	text string
}

func (f *failure) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *failure) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text += fmt.Sprintf(format, args...)
}

// of calls the function do with a cluster, and returns the failures reported to f.
func (f *failure) of(opts athenatest.Options, do func(c *athenatest.Cluster)) string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(athenatest.New(f, opts))
	}()
	<-done
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text
}

// A Cluster fails its test if two nodes lead with authority at the same instant, even if the test
// does not check for that. Here the clocks of a majority jump, which violates an assumption of the
// protocol.
func TestSplitBrainIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failure{TB: t}
		got := f.of(athenatest.Options{}, func(c *athenatest.Cluster) {
			c.Start()
			c.WaitSettled()
			old := c.Leader()
			c.Partition([]int{old})
			for _, i := range c.Running() {
				if i != old {
					c.JumpClock(i, 2*time.Second)
				}
			}
			time.Sleep(2 * time.Second) // of the bubble
			c.Heal()
			c.WaitSettled()
		})
		for _, want := range []string{"split brain: 2 nodes lead with authority at the same time:",
			"with token 1000000000000; its view: ", "with token 2000000000000; its view: "} {
			if strings.Count(got, want) != 1 {
				t.Errorf("got %q, want it to contain %q once", got, want)
			}
		}
	})
}

// TestScenariosNeedNodes checks that a scenario reports how many nodes it needs if too few
// are running, and completes otherwise.
func TestScenariosNeedNodes(t *testing.T) {
	for _, s := range athenatest.Scenarios() {
		for _, size := range []int{3, 4, 5} {
			enough := size/2 + 2
			synctest.Test(t, func(t *testing.T) {
				f := &failure{TB: t}
				f.of(athenatest.Options{Size: size}, func(c *athenatest.Cluster) {
					for i := range enough - 1 {
						c.Start(i)
					}
					s.Play(c)
				})
				want := fmt.Sprintf("needs a majority and one more node, that is %d of %d, but %d are "+
					"running: call Start first", enough, size, enough-1)
				if !strings.Contains(f.text, want) {
					t.Errorf("%s of %d: got %q, want it to contain %q", s.Name, size, f.text, want)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				c := athenatest.New(t, athenatest.Options{Size: size})
				for i := range enough {
					c.Start(i)
				}
				s.Play(c)
			})
		}
	}
}

// TestNoBubble checks that the failure outside of a bubble names the remedy.
func TestNoBubble(t *testing.T) {
	got := (&failure{TB: t}).of(athenatest.Options{}, func(*athenatest.Cluster) {})
	if want := "call Run, or call New inside testing/synctest.Test"; !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}

// TestFailures checks that a failed wait reports the state of the nodes.
func TestFailures(t *testing.T) {
	mute := func(ctx context.Context, _ int, _ cluster.Config, _ ...cluster.Option) error {
		<-ctx.Done()
		return nil
	}
	failing := func(context.Context, int, cluster.Config, ...cluster.Option) error {
		return errors.New("disk on fire")
	}
	quits := func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
		if i != 2 {
			return broken{new(athenatest.Register)}.main(ctx, i, cfg, opts...)
		}
		return nil
	}
	for name, tc := range map[string]struct {
		opts athenatest.Options
		do   func(c *athenatest.Cluster)
		want []string
	}{
		"no quorum": {do: func(c *athenatest.Cluster) {
			c.Start(0)
			c.Leader()
		}, want: []string{"no leader within 1m0s", "node 0: provisional; 1 of 3 members active",
			"n0 at 10.0.0.1:7000 is active", "node 1: not running"}},
		"no node": {athenatest.Options{Main: mute}, func(c *athenatest.Cluster) {
			c.Restart(1)
		}, []string{"no membership of node 1", "node 1: not listening yet"}},
		"Main fails": {athenatest.Options{Main: failing}, func(c *athenatest.Cluster) {
			c.Start()
			c.Leader()
		}, []string{"Main of node 0 returned: disk on fire"}},
		"Main ends too early": {athenatest.Options{Main: quits}, func(c *athenatest.Cluster) {
			c.Start()
			c.WaitSettled()
		}, []string{"Main of node 2 returned nil before its node ended"}},
		"not running": {do: func(c *athenatest.Cluster) { c.Leave(1) }, want: []string{
			"node 1 is not running"}},
		"running": {do: func(c *athenatest.Cluster) { c.Start(1, 1) }, want: []string{
			"node 1 is already running"}},
		"paused": {do: func(c *athenatest.Cluster) {
			c.Start()
			c.WaitSettled()
			c.Pause(2)
			c.Node(2)
		}, want: []string{"node 2 is paused: call Resume first"}},
		"out of range": {do: func(c *athenatest.Cluster) { c.Partition([]int{5}) }, want: []string{
			"no node 5, want 0 to 4"}},
		"size": {athenatest.Options{Size: 300}, func(*athenatest.Cluster) {}, []string{
			"Options.Size is 300, want 1 to 255"}},
		"delay": {athenatest.Options{Delay: -1}, func(*athenatest.Cluster) {}, []string{
			"Options.Delay is -1ns, want 0 or more"}},
		"no address": {do: func(c *athenatest.Cluster) { c.Address(5) }, want: []string{
			"no node 5, want 0 to 4"}},
		"scenario": {athenatest.Options{Size: 2}, scenario(t, "split brain").Play, []string{
			"at least 3, not 2"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			got := (&failure{TB: t}).of(tc.opts, tc.do)
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s: got %q, want it to contain %q", name, got, want)
				}
			}
		})
	}
}
