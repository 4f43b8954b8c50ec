// SPDX-License-Identifier: Apache-2.0

package athenatest_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Ping is used both as an event and as a request.
type Ping struct{ Number int }

// answering adds a handler of requests to every node, and a handler that counts the pings
// that each node receives as events.
func answering(got *[5]atomic.Int64) athenatest.Options {
	return athenatest.Options{Config: func(i int, c *cluster.Config) {
		c.Receiver = receiver.NewMux()
		receiver.Handle(c.Receiver, func(context.Context, member.Member, Ping) error {
			got[i].Add(1)
			return nil
		})
		receiver.HandleRequest(c.Receiver, func(
			_ context.Context, _ member.Member, q Order,
		) (Ticket, error) {
			return Ticket{len(q.Item)}, nil
		})
	}}
}

// A cut affects one direction: a request needs both directions, but an event arrives even if its
// acknowledgement is lost.
func TestCutIsOneWay(t *testing.T) {
	var got [5]atomic.Int64
	athenatest.Run(t, answering(&got), func(t *testing.T, c *athenatest.Cluster) {
		n := c.Node(0)
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := cluster.Request[Ticket](ctx, n, c.Address(1), Order{"x"})
			return err
		}
		if err := ask(); err != nil {
			t.Errorf("before the cut: %v", err)
		}
		c.Cut(1, 0)
		if err := ask(); !errors.Is(err, cluster.ErrUnknownOutcome) {
			t.Errorf("with the way back cut: got %v, want ErrUnknownOutcome", err)
		}
		if err := n.Send(t.Context(), c.Address(1), Ping{1}); err != nil {
			t.Errorf("Send: %v", err)
		}
		c.Advance(10 * time.Millisecond)
		if got[1].Load() != 1 {
			t.Error("the way there is cut too")
		}
		c.Heal()
		c.WaitSettled()
		if err := ask(); err != nil {
			t.Errorf("after the heal: %v", err)
		}
	})
}

// Nodes in one group reach each other; all other nodes form one more group.
func TestPartition(t *testing.T) {
	opts := athenatest.Options{Size: 5}
	athenatest.Run(t, opts, func(t *testing.T, c *athenatest.Cluster) {
		old := c.Leader()
		pair := []int{old, (old + 1) % 5}
		c.Partition([]int{(old + 2) % 5}) // replaced by the next partition
		c.Partition(pair)
		next := c.NextLeader(old)
		if next == pair[1] {
			t.Errorf("node %d leads with one follower", next)
		}
		c.Advance(2 * time.Second)
		for i := range 5 {
			v := c.Node(i).View()
			want := 3
			if i == pair[0] || i == pair[1] {
				want = 2
			}
			if got := v.Members.Count(member.Active); v.Quorate != (want == 3) || v.Quorate && got != 3 {
				t.Errorf("node %d shows %d active, quorate %v; its group has %d", i, got, v.Quorate, want)
			}
		}
		c.Heal()
		c.WaitActive(5)
	})
}

// A path with a delay adds exactly that delay in each direction of a request.
func TestSlow(t *testing.T) {
	var got [5]atomic.Int64
	athenatest.Run(t, answering(&got), func(t *testing.T, c *athenatest.Cluster) {
		ask := func() time.Duration {
			begin := time.Now()
			if _, err := cluster.Request[Ticket](t.Context(), c.Node(0), c.Address(1), Order{}); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		const delay = time.Millisecond // the default Options.Delay
		if got, want := ask(), 2*delay; got != want {
			t.Errorf("a request took %v, want %v", got, want)
		}
		c.Slow(1, 50*time.Millisecond)
		if got, want := ask(), 2*delay+100*time.Millisecond; got != want {
			t.Errorf("a slow request took %v, want %v", got, want)
		}
		c.Heal()
		c.Advance(time.Second)
		if got, want := ask(), 2*delay; got != want {
			t.Errorf("after the heal a request took %v, want %v", got, want)
		}
	})
}

// A crash keeps the store; removing the store makes a new member. A node that leaves
// notifies the others; a node that crashes does not.
func TestCrashAndLeave(t *testing.T) {
	opts := athenatest.Options{}
	opts.Config = func(i int, c *cluster.Config) { c.JoinOnly = i == 2 }
	athenatest.Run(t, opts, func(t *testing.T, c *athenatest.Cluster) {
		store := func() member.StoreID { return c.Node(2).Self().StoreID }
		before := store()
		shown := func() member.Status {
			m, _ := c.Node(0).View().Member(c.Address(2))
			return m.Status
		}
		c.Crash(2)
		c.Advance(50 * time.Millisecond)
		if got := shown(); got != member.Active {
			t.Errorf("just after the crash node 2 is %v, want active still", got)
		}
		c.Crash(2) // has no effect
		c.Restart(2)
		if store() != before {
			t.Error("after a crash the node has another store")
		}
		c.Leave(2)
		if got := shown(); got == member.Active {
			t.Error("after it left node 2 is still active")
		}
		c.Restart(2)
		if store() != before {
			t.Error("after a leave the node has another store")
		}
		c.Crash(2)
		if err := os.RemoveAll(c.DataDir(2)); err != nil {
			t.Fatal(err)
		}
		c.Restart(2)
		if store() == before {
			t.Error("the store was removed, and the node has it still")
		}
		c.WaitSettled()
	})
}

// A paused node receives nothing until Resume, and then everything.
func TestPause(t *testing.T) {
	for name, tls := range map[string]bool{"quic": false, "tls": true} {
		t.Run(name, func(t *testing.T) { testPause(t, tls) })
	}
}

func testPause(t *testing.T, tls bool) {
	var got [5]atomic.Int64
	opts := answering(&got)
	opts.TLS = tls
	athenatest.Run(t, opts, func(t *testing.T, c *athenatest.Cluster) {
		old := c.Leader()
		to, n := (old+1)%3, c.Node(old)
		node := c.Node(to)
		if err := n.Send(t.Context(), c.Address(to), Ping{0}); err != nil {
			t.Errorf("Send: %v", err)
		}
		c.Advance(time.Second)
		c.Pause(to)
		if err := n.Send(t.Context(), c.Address(to), Ping{1}); err != nil {
			t.Errorf("Send: %v", err)
		}
		c.Advance(time.Second)
		if got[to].Load() != 1 {
			t.Error("a paused node took an event")
		}
		if m, _ := n.View().Member(c.Address(to)); m.Status != member.Unreachable {
			t.Errorf("a paused node is %v, want unreachable", m.Status)
		}
		if m, _ := node.View().Member(c.Address(old)); m.Status != member.Active {
			t.Errorf("a paused node saw that time passed: the leader is %v", m.Status)
		}
		c.Resume(to)
		c.WaitSettled()
		if got[to].Load() != 2 {
			t.Errorf("after the pause %d events came, want 2", got[to].Load())
		}
		if c.Leader() != old {
			t.Errorf("node %d leads, want %d: a pause of a follower costs no leader", c.Leader(), old)
		}
	})
}

// A leader whose clock jumps ahead loses its authority.
func TestJumpClock(t *testing.T) {
	athenatest.Run(t, athenatest.Options{}, func(t *testing.T, c *athenatest.Cluster) {
		term, ok := c.Node(c.Leader()).Leader()
		if !ok || !term.Valid() {
			t.Fatal("the leader has no authority")
		}
		c.JumpClock(c.Leader(), time.Hour)
		if term.Valid() {
			t.Error("an hour later the leader has authority still")
		}
		c.WaitSettled()
	})
}

// Of two processes at one address, the newer one gets all packets, and the older one loses
// its authority when its lease ends.
func TestTakeOver(t *testing.T) {
	for _, copied := range []bool{false, true} {
		athenatest.Run(t, athenatest.Options{}, func(t *testing.T, c *athenatest.Cluster) {
			i := (c.Leader() + 1) % 3
			store := c.Node(i).Self().StoreID
			older := c.TakeOver(i, copied)
			c.WaitSettled()
			if c.Node(i) == older || (c.Node(i).Self().StoreID == store) != copied {
				t.Errorf("copied %v: node %d has another store: %v", copied, i,
					c.Node(i).Self().StoreID != store)
			}
			c.Advance(2 * time.Second)
			if _, ok := older.Leader(); ok || older.Err() != nil {
				t.Errorf("the older process shows a leader: %v; ended: %v", ok, older.Err())
			}
		})
	}
}

// New can be used in a bubble of the test, and starts no nodes.
func TestNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := athenatest.New(t, athenatest.Options{Delay: 5 * time.Millisecond})
		if got := c.Running(); len(got) != 0 {
			t.Errorf("got nodes %v, want none", got)
		}
		c.Start(0, 1)
		c.WaitActive(2)
		if took := c.WaitSettled(); took != 0 || len(c.Running()) != 2 || c.Size() != 3 {
			t.Errorf("settled after %v, running %v of %d", took, c.Running(), c.Size())
		}
		c.Start()
		c.WaitActive(3)
		if d := c.Within(time.Second, "the past", func() bool { return true }); d != 0 {
			t.Errorf("Within took %v, want nothing", d)
		}
	})
}
