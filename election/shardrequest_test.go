// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// shardOrder is a request for the shard of its key. The handler waits for Work.
type shardOrder struct {
	ID, Key string
	Work    time.Duration
}

// shardDesk runs shards with handlers of orders on each node of a world.
type shardDesk struct {
	*shardWorld
	sets []*Shards

	mu     sync.Mutex
	ran    map[string]int // runs by id of the order
	tokens map[string]member.Token
}

// inDesk runs a test in a bubble with three nodes and 8 shards.
func inDesk(t *testing.T, test func(*testing.T, *shardDesk)) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		d := &shardDesk{
			shardWorld: &shardWorld{world: w, tape: newTape(t, 8), stops: make([]func(), 3)},
			ran:        map[string]int{}, tokens: map[string]member.Token{},
		}
		for i, n := range w.nodes {
			set, err := NewShards(n.Records(), "set", 8)
			if err != nil {
				t.Fatal(err)
			}
			d.sets = append(d.sets, set)
			HandleShard(w.muxes[i], set, func(o shardOrder) string { return o.Key }, d.handleOrder)
		}
		test(t, d)
		for _, stop := range d.stops {
			if stop != nil {
				stop()
			}
		}
		d.running.Wait()
	})
}

// run makes node i a worker.
func (d *shardDesk) run(i int) {
	ctx, cancel := context.WithCancel(context.Background())
	d.stops[i] = cancel
	d.running.Go(func() { _ = d.sets[i].Run(ctx, d.tape.workOn(address(i).String())) })
}

func (d *shardDesk) handleOrder(
	ctx context.Context, _ member.Member, term leader.Term, o shardOrder,
) (string, error) {
	d.mu.Lock()
	d.ran[o.ID]++
	if !term.Valid() || term.Token().Less(d.tokens[o.Key]) {
		d.t.Errorf("key %s: term %v after %v, valid: %v", o.Key, term.Token(), d.tokens[o.Key],
			term.Valid())
	}
	d.tokens[o.Key] = term.Token()
	d.mu.Unlock()
	select {
	case <-time.After(o.Work):
	case <-ctx.Done():
	}
	return term.Leader(), nil
}

// order sends an order from node i, with a deadline of a minute.
func (d *shardDesk) order(i int, o shardOrder, opts ...cluster.SendOption) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return cluster.RequestShard[string](ctx, d.nodes[i], d.sets[i], o.Key, o, opts...)
}

// runsOf returns how often an order ran.
func (d *shardDesk) runsOf(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ran[id]
}

// TestRequestShardFollowsTheOwner sends orders from all members while the shards move. Each order
// is handled once, by an owner of its shard, in terms with growing tokens.
func TestRequestShardFollowsTheOwner(t *testing.T) {
	inDesk(t, func(t *testing.T, d *shardDesk) {
		for i := range d.nodes {
			d.run(i)
		}
		d.tape.await(d.ids()...)
		var sending sync.WaitGroup
		for sender := range 12 {
			sending.Go(func() {
				for n := range 200 {
					o := shardOrder{ID: fmt.Sprint(sender, "-", n), Key: fmt.Sprint(n % 20)}
					o.Work = rand.N(50 * time.Millisecond)
					began := time.Now()
					_, err := d.order(sender%3, o)
					if took := time.Since(began); err != nil || took > 2*time.Second || d.runsOf(o.ID) != 1 {
						t.Errorf("order %s: %v after %v, %d runs", o.ID, err, took, d.runsOf(o.ID))
					}
				}
			})
		}
		for range 2 {
			for i, rest := range [][]int{{1, 2}, {0, 2}, {0, 1}} {
				d.stops[i]()
				d.tape.await(address(rest[0]).String(), address(rest[1]).String())
				d.run(i)
				d.tape.await(d.ids()...)
			}
		}
		sending.Wait()
	})
}

// TestRequestShardOutcomes checks what a sender learns if the owner is lost, if the shard has no
// owner, and if it asks another member.
func TestRequestShardOutcomes(t *testing.T) {
	inDesk(t, func(t *testing.T, d *shardDesk) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := shardOrder{ID: "early", Key: "x"}
		_, err := cluster.RequestShard[string](ctx, d.nodes[1], d.sets[1], o.Key, o)
		if !errors.Is(err, cluster.ErrNotDelivered) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without an owner: %v, want ErrNotDelivered and the deadline", err)
		}
		d.run(0)
		d.tape.await(address(0).String())
		_, err = cluster.Request[string](t.Context(), d.nodes[1], address(2), o)
		if !errors.Is(err, cluster.ErrNotDelivered) || d.runsOf("early") != 0 {
			t.Errorf("another member: %v and %d runs, want ErrNotDelivered", err, d.runsOf("early"))
		}
		d.run(1)
		d.run(2)
		d.tape.await(d.ids()...)
		for key := 0; ; key++ { // of a shard of node 0
			if _, owner, _ := d.sets[1].Owner(fmt.Sprint(key)); owner.ID == address(0).String() {
				o.Key = fmt.Sprint(key)
				break
			}
		}
		type answer struct {
			by  string
			err error
		}
		once, twice := make(chan answer, 1), make(chan answer, 1)
		go func() {
			by, err := d.order(1, shardOrder{"once", o.Key, 3 * time.Second})
			once <- answer{by, err}
		}()
		go func() {
			by, err := d.order(1, shardOrder{"twice", o.Key, 3 * time.Second}, cluster.Idempotent())
			twice <- answer{by, err}
		}()
		pause(t, time.Second)
		d.cutBetween([]int{0}, []int{1, 2}, true)
		if a := <-once; !errors.Is(a.err, cluster.ErrUnknownOutcome) || d.runsOf("once") != 1 {
			t.Errorf("once: %v, %d runs, want ErrUnknownOutcome", a.err, d.runsOf("once"))
		}
		a := <-twice
		if a.err != nil || a.by == address(0).String() || d.runsOf("twice") != 2 {
			t.Errorf("idempotent: %v by %s, %d runs, want another owner", a.err, a.by, d.runsOf("twice"))
		}
	})
}
