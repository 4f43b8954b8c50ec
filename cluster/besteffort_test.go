// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// notesInto returns a function that registers a handler for notes. The handler adds each note to
// the box, and takes a minute for the note "wait".
func notesInto(box *mailbox, opts ...receiver.Option) func(*testing.T, int, *receiver.Mux) {
	return func(_ *testing.T, i int, mux *receiver.Mux) {
		receiver.Handle(mux, func(ctx context.Context, from member.Member, m note) error {
			if m.Text == "wait" {
				time.Sleep(time.Minute)
				return nil
			}
			box.add("n%d %s %s%s", i, from.Name, m.Text, receiver.Metadata(ctx)["trace"])
			return nil
		}, opts...)
	}
}

func TestBestEffortArrives(t *testing.T) {
	var box mailbox
	withReceivers(t, 3, notesInto(&box), func(t *testing.T, w *world) {
		n := w.nodes[0]
		trace := WithMetadata(map[string]string{"trace": "+"})
		for _, err := range []error{
			n.Send(t.Context(), address(1), note{Text: "one"}, BestEffort(), trace),
			n.Send(t.Context(), address(0), note{Text: "self"}, BestEffort(), trace),
			n.Broadcast(t.Context(), note{Text: "all"}, BestEffort(), WithSelf()),
		} {
			if err != nil {
				t.Errorf("got %v, want nil", err)
			}
		}
		synctest.Wait()
		want := []string{"n0 n0 all", "n0 n0 self+", "n1 n0 all", "n1 n0 one+", "n2 n0 all"}
		if got := box.sorted(); !slices.Equal(got, want) {
			t.Errorf("handlers saw %q, want %q", got, want)
		}
		if got := n.Status().Transport; got.DatagramsSent.Messages != 3 ||
			got.Sent[transport.Custom].Messages != 0 {
			t.Errorf("sent %d datagrams and %d custom frames, want 3 and none",
				got.DatagramsSent.Messages, got.Sent[transport.Custom].Messages)
		}
	})
}

// TestBestEffortIsRefused checks that BestEffort refuses events that are too large and options that
// it cannot honor.
func TestBestEffortIsRefused(t *testing.T) {
	var box mailbox
	withReceivers(t, 2, notesInto(&box), func(t *testing.T, w *world) {
		n := w.nodes[0]
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errBoom)
		fits := note{}
		for {
			err := n.Send(ended, address(1), note{Text: fits.Text + "x"}, BestEffort())
			if errors.Is(err, ErrTooLarge) {
				break
			}
			fits.Text += "x"
		}
		large := note{Text: fits.Text + "x"}
		told := WithOutcome(func(member.Address, error) { t.Error("an outcome of what was refused") })
		ask := func(event any) error {
			_, err := Request[note](t.Context(), n, address(1), event, BestEffort())
			return err
		}
		askLeader := func(event any) error {
			_, err := RequestLeader[note](t.Context(), n, event, BestEffort())
			return err
		}
		for _, c := range []struct {
			name string
			got  error
			want error
		}{
			{"what just fits", n.Send(t.Context(), address(1), fits, BestEffort()), nil},
			{"too large", n.Send(t.Context(), address(1), large, BestEffort()), ErrTooLarge},
			{"too large for oneself", n.Send(t.Context(), address(0), large, BestEffort()), ErrTooLarge},
			{"too large for all", n.Broadcast(t.Context(), large, BestEffort()), ErrTooLarge},
			{"an outcome", n.Send(t.Context(), address(1), fits, BestEffort(), told),
				textError("BestEffort and WithOutcome")},
			{"outcomes", n.Broadcast(t.Context(), fits, BestEffort(), told),
				textError("BestEffort and WithOutcome")},
			{"request", ask(fits), textError("request cannot be BestEffort")},
			{"request of the leader", askLeader(fits), textError("request cannot be BestEffort")},
			{"stranger", n.Send(t.Context(), address(9), fits, BestEffort()), ErrNotActive},
			{"ended context", n.Send(ended, address(1), fits, BestEffort()), errBoom},
			{"long metadata", n.Send(t.Context(), address(1), fits,
				what(strings.Repeat("x", messaging.MaxMetadataValue+1))), ErrTooLarge},
		} {
			if !matchesError(c.got, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
			}
		}
		synctest.Wait()
		if got := box.sorted(); len(got) != 1 {
			t.Errorf("handlers saw %d events, want what fits alone", len(got))
		}
	})
}

// TestBestEffortNeverWaits checks that BestEffort never waits for a full queue on either node,
// whatever the policy of the queue. Events that do not fit must be dropped and counted.
func TestBestEffortNeverWaits(t *testing.T) {
	var box mailbox
	withReceivers(t, 2, notesInto(&box, receiver.Queue(2, receiver.Block)),
		func(t *testing.T, w *world) {
			for to := range 2 {
				begin := time.Now()
				send := func(text string) {
					t.Helper()
					err := w.nodes[0].Send(t.Context(), address(to), note{Text: text}, BestEffort())
					if err != nil {
						t.Errorf("to node %d: %s: got %v, want nil", to, text, err)
					}
					synctest.Wait()
				}
				for _, text := range []string{"wait", "a", "b", "lost", "lost"} {
					send(text)
				}
				if took := time.Since(begin); took > 0 {
					t.Errorf("to node %d: the sends took %v", to, took)
				}
				if got := w.nodes[to].Status().Dropped[messaging.DropQueueFull]; got != 2 {
					t.Errorf("node %d dropped %d, want 2", to, got)
				}
				time.Sleep(2 * time.Minute)
				send("later")
			}
			want := []string{"n0 n0 a", "n0 n0 b", "n0 n0 later", "n1 n0 a", "n1 n0 b", "n1 n0 later"}
			if got := box.sorted(); !slices.Equal(got, want) {
				t.Errorf("handlers saw %q, want %q", got, want)
			}
		})
}

// TestBestEffortWithoutAConnection checks that an event to a member without a connection is lost
// immediately.
func TestBestEffortWithoutAConnection(t *testing.T) {
	var box mailbox
	withReceivers(t, 2, notesInto(&box), func(t *testing.T, w *world) {
		w.end(w.nodes[1])
		synctest.Wait()
		begin := time.Now()
		err := w.nodes[0].Send(t.Context(), address(1), note{Text: "lost"}, BestEffort())
		if err != nil || time.Since(begin) > 0 {
			t.Errorf("got %v after %v, want nil immediately", err, time.Since(begin))
		}
		if got := w.nodes[0].Status().Transport.Dropped[mesh.DropUnconnected.String()]; got != 1 {
			t.Errorf("counted %d lost without a connection, want 1", got)
		}
		w.end(w.nodes[0])
		err = w.nodes[0].Send(t.Context(), address(1), note{}, BestEffort())
		if !errors.Is(err, ErrClosed) {
			t.Errorf("on a closed node: got %v, want ErrClosed", err)
		}
	})
}

// TestBadDatagramsAreDroppedAndCounted checks that bad datagrams are dropped and counted, and have
// no other effect.
func TestBadDatagramsAreDroppedAndCounted(t *testing.T) {
	var box mailbox
	withReceivers(t, 2, notesInto(&box), func(t *testing.T, w *world) {
		n := w.nodes[0]
		in, peer := inbound{n.messages, n}, w.nodes[1].Self().Identity
		encode := func(e wire.Event) []byte {
			frame, err := wire.EncodeEvent(e, MaxBestEffortBytes)
			if err != nil {
				t.Fatal(err)
			}
			return frame
		}
		sound := encode(wire.Event{Name: "note", Payload: []byte{0x80}})
		later := slices.Clone(sound)
		later[1]++
		for _, c := range []struct {
			name  string
			frame []byte
			want  string // why the frame is dropped; "" if it is accepted
		}{
			{"sound", sound, ""},
			{"empty", nil, messaging.DropMalformed},
			{"truncated", sound[:len(sound)-1], messaging.DropMalformed},
			{"a call", encode(wire.Event{Name: "note", Payload: []byte{0x80}, Call: wire.Call{ID: 1}}),
				messaging.DropMalformed},
			{"a call that is taken back", wire.AppendCancel(nil, 1), messaging.DropUnknownKind},
			{"of a later version", later, messaging.DropUnknownKind},
			{"no event of its type", encode(wire.Event{Name: "note", Payload: []byte{0xc3}}),
				messaging.DropBadEvent},
			{"without a handler", encode(wire.Event{Name: "nobody"}), messaging.DropNoHandler},
		} {
			before := n.Status().Dropped[c.want]
			in.Datagram(peer, c.frame)
			synctest.Wait()
			if got := n.Status().Dropped[c.want]; c.want != "" && got != before+1 {
				t.Errorf("%s: %q counted %d times, want %d", c.name, c.want, got, before+1)
			}
		}
		if got, want := box.sorted(), []string{"n0 n1 "}; !slices.Equal(got, want) {
			t.Errorf("handlers saw %q, want %q", got, want)
		}
	})
}
