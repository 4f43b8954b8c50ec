// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// nodesSeen records the nodes that handlers got from their contexts, by kind of handler.
type nodesSeen struct {
	mu   sync.Mutex
	by   map[string][]*Node
	open bool // Start has not returned yet
}

func (s *nodesSeen) add(ctx context.Context, t *testing.T, i int, kind string) {
	n := FromContext(ctx)
	if n == nil || n.cfg.self != address(i) {
		t.Errorf("%s: a handler of node %d had %v", kind, i, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		kind = "before Start returned"
	}
	s.by[kind] = append(s.by[kind], n)
}

func (s *nodesSeen) register(t *testing.T, i int, mux *receiver.Mux) {
	receiver.Handle(mux, func(ctx context.Context, _ member.Member, _ Snapshot) error {
		s.add(ctx, t, i, "own event")
		n := FromContext(ctx)
		return n.Send(ctx, n.Self().Address, note{}, BestEffort())
	})
	receiver.Handle(mux, func(ctx context.Context, _ member.Member, _ note) error {
		s.add(ctx, t, i, "event")
		return nil
	})
	receiver.HandleRequest(mux, func(ctx context.Context, _ member.Member, r sum) (total, error) {
		s.add(ctx, t, i, "request")
		return total{r.A + r.B}, nil
	})
	receiver.HandleStream(mux, "echo", func(
		ctx context.Context, _ member.Member, _ receiver.Stream,
	) error {
		s.add(ctx, t, i, "stream")
		return nil
	})
}

// TestFromContext checks that handlers of every kind get their own node from the context, even
// before Start has returned the node. Start is held back for a second, in which the handlers of the
// first event run.
func TestFromContext(t *testing.T) {
	s := &nodesSeen{by: map[string][]*Node{}, open: true}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.close()
		w.receivers = func(i int) *receiver.Mux {
			mux := receiver.NewMux()
			s.register(t, i, mux)
			return mux
		}
		w.own = func(int) Option { return WithListening(func(*Node) { time.Sleep(time.Second) }) }
		w.form()
		s.mu.Lock()
		s.open = false
		s.mu.Unlock()
		n := w.nodes[0]
		for to := range w.nodes {
			if err := n.Send(t.Context(), address(to), note{}); err != nil {
				t.Fatal(err)
			}
			if _, err := Request[total](t.Context(), n, address(to), sum{}); err != nil {
				t.Fatal(err)
			}
			stream, err := n.OpenStream(t.Context(), address(to), "echo")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.ReadAll(stream)
			stream.Close()
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, kind := range []string{"before Start returned", "event", "request", "stream"} {
			if !slices.Contains(s.by[kind], w.nodes[0]) || !slices.Contains(s.by[kind], w.nodes[1]) {
				t.Errorf("%s: handlers had %v, want both nodes among them", kind, s.by[kind])
			}
		}
	})
	if n := FromContext(t.Context()); n != nil {
		t.Errorf("outside of a handler: got %v, want nil", n)
	}
}
