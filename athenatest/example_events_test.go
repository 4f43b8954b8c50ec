// SPDX-License-Identifier: Apache-2.0

package athenatest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Reading is the event of this test.
type Reading struct{ Number int }

// readings records what happened to each number, at the sender and at the receiver.
type readings struct {
	mu      sync.Mutex
	handled map[int]int
	told    map[int]error
	refused map[int]error // by Send
}

func newReadings() *readings {
	return &readings{
		handled: make(map[int]int), told: make(map[int]error), refused: make(map[int]error),
	}
}

// receiver returns the Mux of the receiving member.
func (r *readings) receiver() *receiver.Mux {
	rx := receiver.NewMux()
	receiver.Handle(rx, func(_ context.Context, _ member.Member, e Reading) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.handled[e.Number]++
		return nil
	})
	return rx
}

// send is the code under test. It records the outcome of each event that it sends.
func (r *readings) send(ctx context.Context, from *cluster.Node, to member.Address, number int) {
	err := from.Send(ctx, to, Reading{number}, cluster.WithOutcome(
		func(_ member.Address, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told[number] = err
		}))
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused[number] = err
	}
}

// TestEventsAcrossAPartition sends continuously while a member is cut off. It checks that each
// event was handled once or reported as lost.
func TestEventsAcrossAPartition(t *testing.T) {
	const count = 100
	r := newReadings()
	opts := athenatest.Options{Config: func(_ int, c *cluster.Config) { c.Receiver = r.receiver() }}
	athenatest.Run(t, opts, func(t *testing.T, c *athenatest.Cluster) {
		from := c.Leader()
		to := (from + 1) % c.Size()
		sender := c.Node(from)
		var sends sync.WaitGroup
		for i := range count {
			if i == count/4 {
				c.Partition([]int{to})
			}
			if i == count*3/4 {
				c.Heal()
			}
			sends.Go(func() { r.send(t.Context(), sender, c.Address(to), i) })
			c.Advance(200 * time.Millisecond)
		}
		sends.Wait()
		c.Advance(time.Minute) // wait until every pending send has its outcome
		r.check(t, count)
	})
}

// check compares the outcomes at the sender with the numbers that the receiver handled.
func (r *readings) check(t *testing.T, count int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := 0
	for i := range count {
		told, known := r.told[i]
		switch handled := r.handled[i]; {
		case r.refused[i] != nil:
			lost++
			if handled > 0 {
				t.Errorf("event %d: Send returned %v, but it was handled", i, r.refused[i])
			}
		case !known:
			t.Errorf("event %d: the sender never got its outcome", i)
		case told == nil && handled != 1:
			t.Errorf("event %d: told as handled, was so %d times", i, handled)
		case errors.Is(told, cluster.ErrUnknownOutcome) && handled <= 1:
			lost++ // possibly
		case told != nil:
			t.Errorf("event %d: handled %d times, told: %v", i, handled, told)
		}
	}
	if lost == 0 || lost == count {
		t.Errorf("%d of %d events were lost: the partition did not do what it should", lost, count)
	}
}
