// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

type note struct {
	Number int
	Text   string
}

type flags []bool

// mailbox collects what handlers receive.
type mailbox struct {
	mu    sync.Mutex
	lines []string
}

func (b *mailbox) add(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func (b *mailbox) sorted() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(slices.Values(b.lines))
}

// textError stands for any error that contains this text, for tests that have no error value to
// compare with.
type textError string

func (e textError) Error() string { return string(e) }

// matchesError reports whether err is the wanted error, or contains the text of a wanted textError.
func matchesError(err, want error) bool {
	if text, ok := errors.AsType[textError](want); ok {
		return err != nil && strings.Contains(err.Error(), string(text))
	}
	return errors.Is(err, want)
}

// withReceivers is like inWorld, but each node has a receiver; the function register adds the
// handlers of node i.
func withReceivers(
	t *testing.T, size int, register func(t *testing.T, i int, mux *receiver.Mux),
	test func(*testing.T, *world),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size)
		defer w.close()
		w.receivers = func(i int) *receiver.Mux {
			mux := receiver.NewMux()
			register(t, i, mux)
			return mux
		}
		w.form()
		test(t, w)
	})
}

func TestSendAndBroadcast(t *testing.T) {
	var box mailbox
	withReceivers(t, 3, func(t *testing.T, i int, mux *receiver.Mux) {
		receiver.Handle(mux, func(_ context.Context, from member.Member, m note) error {
			box.add("n%d %s %s", i, from.Name, m.Text)
			return nil
		})
	}, func(t *testing.T, w *world) {
		n := w.nodes[0]
		for _, err := range []error{
			n.Send(t.Context(), address(1), note{1, "whisper"}),
			n.Send(t.Context(), address(0), &note{2, "self"}),
			n.Broadcast(t.Context(), note{3, "roar"}),
			w.nodes[1].Broadcast(t.Context(), note{4, "all"}, WithSelf()),
		} {
			if err != nil {
				t.Errorf("got %v, want nil", err)
			}
		}
		synctest.Wait()
		want := []string{"n0 n0 self", "n0 n1 all", "n1 n0 roar", "n1 n0 whisper", "n1 n1 all",
			"n2 n0 roar", "n2 n1 all"}
		if got := box.sorted(); !slices.Equal(got, want) {
			t.Errorf("handlers saw %q, want %q", got, want)
		}
		if got := n.Status().Transport.Sent[transport.Custom].Messages; got != 3 {
			t.Errorf("events sent to others: got %d, want 3", got)
		}
	})
}

func TestSendIsRefused(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		n := w.nodes[0]
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errBoom)
		for _, c := range []struct {
			name  string
			ctx   context.Context
			to    member.Address
			event any
			want  error
		}{
			{"stranger", t.Context(), address(9), note{}, ErrNotActive},
			{"nobody", t.Context(), member.Address{}, note{}, ErrNotActive},
			{"type without a name", t.Context(), address(1), struct{}{}, ErrUnknownType},
			{"nil", t.Context(), address(1), nil, ErrUnknownType},
			{"own event", t.Context(), address(1), MemberChanged{}, ErrUnknownType},
			{"too large", t.Context(), address(1), note{Text: string(make([]byte, MaxEventBytes))},
				ErrTooLarge},
			{"too many values", t.Context(), address(1), flags(make([]bool, MaxEventValues)),
				ErrTooLarge},
			{"ended context", ended, address(1), note{}, errBoom},
		} {
			if err := n.Send(c.ctx, c.to, c.event); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, err, c.want)
			}
		}
		if err := n.Broadcast(t.Context(), struct{}{}); !errors.Is(err, ErrUnknownType) {
			t.Errorf("Broadcast of a type without a name: got %v, want ErrUnknownType", err)
		}
	})
}

// nest is an event that holds another one.
type nest struct{ Inner *nest }

// TestRefusedSendNamesTheRemedy checks that the error of an event beyond a limit names what to do.
func TestRefusedSendNamesTheRemedy(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		deep := nest{}
		for range 8 {
			inner := deep
			deep = nest{&inner}
		}
		large := note{Text: string(make([]byte, MaxEventBytes))}
		for _, c := range []struct {
			event any
			want  string
		}{
			{large, "the limit is 1048576: use OpenStream"},
			{deep, "nested more than 8 levels deep: send the inner ones as one []byte"},
			{flags(make([]bool, MaxEventValues)), "send many small ones as one []byte"},
		} {
			err := w.nodes[0].Send(t.Context(), address(1), c.event)
			if err == nil || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%T: got %v, want %q", c.event, err, c.want)
			}
		}
	})
}

// TestBroadcastNamesWhoGotNothing checks that the error of Broadcast names the members that did not
// get the event. All other members must get the event.
func TestBroadcastNamesWhoGotNothing(t *testing.T) {
	var box mailbox
	withReceivers(t, 3, func(t *testing.T, i int, mux *receiver.Mux) {
		receiver.Handle(mux, func(_ context.Context, _ member.Member, m note) error {
			box.add("n%d %s", i, m.Text)
			return nil
		})
	}, func(t *testing.T, w *world) {
		leader := w.leader()
		others := w.others(leader)
		w.end(others[0])
		err := leader.Broadcast(w.within(100*time.Millisecond), note{Text: "roar"})
		failed, ok := errors.AsType[*BroadcastError](err)
		if !ok || len(failed.Results) != 2 || !errors.Is(err, ErrNotDelivered) {
			t.Fatalf("got %v, want a BroadcastError of two members", err)
		}
		var all []Result
		_ = leader.Broadcast(w.within(100*time.Millisecond), note{Text: "again"}, WithSelf(),
			WithResults(&all)) // likewise
		if len(all) != 3 || !slices.IsSortedFunc(all, func(a, b Result) int {
			return a.To.Address.Compare(b.To.Address)
		}) {
			t.Errorf("WithResults: got %v, want three in the order of addresses", all)
		}
		for _, r := range failed.Results {
			if gone := r.To.Address == others[0].cfg.self; gone != (r.Err != nil) {
				t.Errorf("%v: got %v, want an error of %s alone", r.To.Address, r.Err, others[0].cfg.Addr)
			}
		}
		synctest.Wait()
		want := slices.Sorted(slices.Values([]string{others[1].cfg.Name + " roar",
			others[1].cfg.Name + " again", leader.cfg.Name + " again"}))
		if got := box.sorted(); !slices.Equal(got, want) {
			t.Errorf("handlers saw %q, want %q", got, want)
		}
	})
}

// TestSlowHandlerSlowsItsSenders checks that a slow handler slows down only its senders: while it
// handles 5,000 events of 50 ms each, no event is lost, and no member or leader changes.
func TestSlowHandlerSlowsItsSenders(t *testing.T) {
	const events, each = 5000, 50 * time.Millisecond
	var seen []int
	withReceivers(t, 3, func(t *testing.T, i int, mux *receiver.Mux) {
		receiver.Handle(mux, func(_ context.Context, _ member.Member, m note) error {
			time.Sleep(each)
			seen = append(seen, m.Number)
			return nil
		})
	}, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for e := range w.nodes[2].Events(ctx) {
				if _, first := e.(Snapshot); !first {
					t.Errorf("the cluster changed: %v", e)
				}
			}
		}()
		begin := time.Now()
		text := strings.Repeat("x", 4096)
		for i := range events {
			if err := w.nodes[0].Send(t.Context(), address(1), note{i, text}); err != nil {
				t.Fatalf("Send %d: %v", i, err)
			}
		}
		took := time.Since(begin)
		// The backlog is bounded by the queue and the buffers of the connection.
		if took < events*each*3/4 {
			t.Errorf("the sends took %v: no backpressure", took)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(seen) != events || !slices.IsSorted(seen) {
			t.Errorf("handled: got %d events, in order %v; want all %d in order",
				len(seen), slices.IsSorted(seen), events)
		}
	})
}

// TestHandlerPanicHarmsNobody checks that a panic of a handler is counted, and that the next event
// is handled.
func TestHandlerPanicHarmsNobody(t *testing.T) {
	var box mailbox
	withReceivers(t, 2, func(t *testing.T, i int, mux *receiver.Mux) {
		receiver.Handle(mux, func(_ context.Context, _ member.Member, m note) error {
			if m.Text == "panic" {
				panic(m)
			}
			box.add("%s", m.Text)
			return nil
		})
	}, func(t *testing.T, w *world) {
		for _, text := range []string{"panic", "fine"} {
			if err := w.nodes[0].Send(t.Context(), address(1), note{Text: text}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := box.sorted(); !slices.Equal(got, []string{"fine"}) {
			t.Errorf("handlers saw %q, want fine", got)
		}
		for _, s := range w.nodes[1].Status().Receivers {
			if s.Event == "note" && (s.Panicked != 1 || s.Handled != 2) {
				t.Errorf("Status: got %+v, want one panic of two events", s)
			}
		}
	})
}

// TestReceiversHearOfMembersAndLeaders checks that receivers get changes of members and leaders as
// typed events from their own node.
func TestReceiversHearOfMembersAndLeaders(t *testing.T) {
	var box mailbox
	withReceivers(t, 3, func(t *testing.T, i int, mux *receiver.Mux) {
		receiver.Handle(mux, func(_ context.Context, from member.Member, e MemberChanged) error {
			if e.Member.Status == member.Removed {
				box.add("n%d %s %s removed", i, from.Name, e.Member.Name)
			}
			return nil
		})
		receiver.Handle(mux, func(_ context.Context, from member.Member, e LeaderChanged) error {
			if e.Version > 1 && e.Quorate {
				box.add("n%d %s leader", i, from.Name)
			}
			return nil
		})
	}, func(t *testing.T, w *world) {
		leader := w.leader()
		if err := leader.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		var want []string
		for _, n := range w.others(leader) {
			want = append(want, fmt.Sprintf("%s %s leader", n.cfg.Name, n.cfg.Name),
				fmt.Sprintf("%s %s %s removed", n.cfg.Name, n.cfg.Name, leader.cfg.Name))
		}
		// The node that left may or may not have seen the next leader.
		got := slices.DeleteFunc(box.sorted(), func(line string) bool {
			return strings.HasPrefix(line, leader.cfg.Name)
		})
		if !slices.Equal(got, want) {
			t.Errorf("handlers saw %q, want %q", got, want)
		}
	})
}

// TestUnknownEventIsCounted checks that the receiving node counts an unknown event, which has no
// other effect.
func TestUnknownEventIsCounted(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		for _, raw := range []receiver.Raw{
			{Name: "nobody", Payload: []byte{0xc0}},
			{Name: "MemberChanged", Payload: []byte{0x80}},
		} {
			if err := w.nodes[0].Send(t.Context(), address(1), raw); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := w.nodes[1].Status().Dropped[messaging.DropNoHandler]; got != 2 {
			t.Errorf("dropped for %q: got %d, want 2", messaging.DropNoHandler, got)
		}
	})
}

// TestCloseNamesAStuckHandler checks that Close names a stuck handler and does not wait for it
// forever.
func TestCloseNamesAStuckHandler(t *testing.T) {
	withReceivers(t, 2, func(t *testing.T, i int, mux *receiver.Mux) {
		receiver.Handle(mux, func(context.Context, member.Member, note) error {
			time.Sleep(time.Minute)
			return nil
		})
	}, func(t *testing.T, w *world) {
		stuck := w.nodes[1]
		ctx := w.within(time.Second)
		for w.nodes[0].Send(ctx, stuck.cfg.self, note{Text: strings.Repeat("x", 1<<16)}) == nil {
		}
		begin := time.Now()
		if err := stuck.Close(); err == nil || !strings.Contains(err.Error(), "note") {
			t.Errorf("Close: got %v, want an error that names note", err)
		}
		if took := time.Since(begin); took > closeTimeout+mesh.CloseTimeout {
			t.Errorf("Close took %v, want about %v", took, closeTimeout)
		}
		w.nodes = w.nodes[:1]
		time.Sleep(time.Minute) // the handler returns
	})
}
