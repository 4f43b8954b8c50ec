// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// TestBadFramesAreDroppedAndCounted checks that bad frames are dropped and counted, and have no
// other effect.
func TestBadFramesAreDroppedAndCounted(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		n := w.nodes[0]
		in, peer := inbound{n.messages, n}, w.nodes[1].Self().Identity
		encode := func(m message.Message) []byte {
			frame, err := wire.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			return frame
		}
		sound := message.Message{From: peer, To: address(0), Body: message.SeedKeepAliveAck{}}
		forged, greet := sound, sound
		forged.From = at(9, 0).Identity
		greet.Body = in.Greet().Body
		event, err := wire.EncodeEvent(wire.Event{Name: "note", Payload: []byte{0x80}}, MaxEventBytes)
		if err != nil {
			t.Fatal(err)
		}
		custom := func(from member.Identity, frame []byte) error {
			return in.Custom(transport.Custom, from, frame)
		}
		later := encode(sound)
		later[1]++
		for _, c := range []struct {
			name    string
			deliver func(member.Identity, []byte) error
			frame   []byte
			want    string // why the frame is dropped; "" if it is accepted
		}{
			{"sound", in.System, encode(sound), ""},
			{"empty", in.System, nil, messaging.DropMalformed},
			{"truncated", in.System, encode(sound)[:20], messaging.DropMalformed},
			{"an event among messages", in.System, event, messaging.DropUnknownKind},
			{"of a later version", in.System, later, messaging.DropUnknownKind},
			{"of another sender", in.System, encode(forged), dropOtherSender},
			{"a second greet", in.System, encode(greet), dropMisplaced},
			{"a message among events", custom, encode(sound), messaging.DropMalformed},
			{"truncated event", custom, event[:4], messaging.DropMalformed},
			{"event without a handler", custom, event, messaging.DropNoHandler},
		} {
			before := n.Status().Dropped
			err := c.deliver(peer, c.frame)
			closes := c.want == messaging.DropMalformed || c.want == dropOtherSender ||
				c.want == dropMisplaced
			if (err != nil) != closes {
				t.Errorf("%s: got error %v, want one: %t", c.name, err, closes)
			}
			synctest.Wait()
			after := n.Status().Dropped
			for _, reason := range []string{
				messaging.DropMalformed, messaging.DropUnknownKind, dropOtherSender, dropMisplaced,
				messaging.DropNoHandler,
			} {
				want := before[reason]
				if reason == c.want {
					want++
				}
				if after[reason] != want {
					t.Errorf("%s: %q counted %d times, want %d", c.name, reason, after[reason], want)
				}
			}
		}
	})
}

// TestFewLargeEventsWaitForTheLoop checks that only a few large messages wait for the loop, and
// that small ones do not wait behind them. A large message must free its slot when it is
// refused or processed.
func TestFewLargeEventsWaitForTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		opened, err := openNode(t.Context(), w.config(0, Config{}), newOptions(w.options(0)))
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = []*Node{opened}
		n := opened
		in, peer := inbound{n.messages, n}, member.Identity{Address: address(1), Incarnation: 1}
		frame := func(records int) []byte {
			m := message.Message{From: peer, To: address(0)}
			s := member.State{Number: member.Number{Version: 1}}
			for i := range records {
				key := fmt.Sprintf("%04d", i)
				s.Records = s.Records.Put(member.Record{Key: key, Value: make([]byte, 4000)})
			}
			m.Body = message.ClusterAlignment{State: s}
			b, err := wire.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		large := frame(90)
		for range 3 * maxLarge {
			go func() {
				if err := in.System(peer, large); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		for range 10 {
			go in.System(peer, frame(0))
		}
		synctest.Wait()
		if got, want := len(n.inbox), maxLarge+10; got != want {
			t.Errorf("%d events wait, want %d large ones and 10 small ones", got, maxLarge)
		}
		taken := 0
		go n.runLooking(func(m message.Message) {
			if b, ok := m.Body.(message.ClusterAlignment); ok && b.State.Records.Len() > 0 {
				taken++
			}
		})
		for range 2 * maxLarge {
			bad := large[:len(large)-1]
			if err := in.System(peer, bad); err == nil {
				t.Error("a large frame that is cut off: no error")
			}
		}
		synctest.Wait()
		if taken != 3*maxLarge || len(n.large) != 0 {
			t.Errorf("%d large events were taken and %d places are, want all %d and none",
				taken, len(n.large), 3*maxLarge)
		}
		w.close()
	})
}

// TestMembersDoNotWaitBehindStrangers checks that few messages of strangers wait for the loop,
// however many connections they have, so that those of members are soon handled. A large message of
// a stranger leaves room for large ones of members.
func TestMembersDoNotWaitBehindStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		n, err := openNode(t.Context(), w.config(0, Config{}), newOptions(w.options(0)))
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = []*Node{n}
		in := inbound{n.messages, n}
		deliver := func(from, changes int) {
			change := message.Change{Key: "k", Value: make([]byte, member.MaxValueBytes)}
			m := message.Message{
				From: member.Identity{Address: address(from), Incarnation: 1}, To: address(0),
				Body: message.RecordRequest{Changes: slices.Repeat([]message.Change{change}, changes)},
			}
			frame, err := wire.Encode(m)
			if err != nil {
				t.Error(err)
			}
			if err := in.System(m.From, frame); err != nil {
				t.Error(err)
			}
			if err := in.System(m.From, frame[:len(frame)-1]); err == nil {
				t.Error("a frame that is cut off: no error")
			}
		}
		const strangers = 20
		for i := range strangers {
			go deliver(9+i, 10)
		}
		synctest.Wait()
		for range maxLarge - maxStrangers {
			go deliver(1, 10)
		}
		synctest.Wait()
		if got := len(n.inbox); got != maxLarge {
			t.Errorf("%d messages wait, want %d of strangers, then those of the member", got, maxStrangers)
		}
		var taken []int
		go n.runLooking(func(m message.Message) {
			taken = append(taken, int(m.From.Address.Port-address(0).Port))
		})
		synctest.Wait()
		if want := strangers + maxLarge - maxStrangers; len(taken) != want || len(n.strangers) != 0 {
			t.Fatalf("%d messages were taken and %d places are, want all %d and none", len(taken),
				len(n.strangers), want)
		}
		for i, from := range taken[maxStrangers:maxLarge] {
			if from != 1 {
				t.Errorf("message %d is of process %d, want that of the member", maxStrangers+i, from)
			}
		}
		w.close()
	})
}

// TestUnhandledEventCausesWarning checks that the receiving node warns about events without
// a handler, once for each name and sender. A sender that makes up names must cause a limited
// number of warnings. The sender must not be notified.
func TestUnhandledEventCausesWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		j := logging(w, zerolog.WarnLevel)
		send := func(from int, event any) {
			t.Helper()
			if err := w.nodes[from].Send(t.Context(), address(0), event); err != nil {
				t.Fatalf("Send from node %d: got %v, want nil", from, err)
			}
			synctest.Wait()
		}
		for range 3 {
			for from := 1; from < 3; from++ {
				send(from, note{})
				send(from, receiver.Raw{Name: "other", Payload: []byte{0xc0}})
			}
		}
		const text = "dropped an event that has no handler here; " +
			"further ones of this name from this peer are only counted"
		lines, _ := j.about(text)
		for _, want := range []string{
			`"peer":"127.0.0.1:7002","event":"note"`, `"peer":"127.0.0.1:7002","event":"other"`,
			`"peer":"127.0.0.1:7003","event":"note"`, `"peer":"127.0.0.1:7003","event":"other"`,
		} {
			if n := strings.Count(strings.Join(lines, "\n"), want); n != 1 {
				t.Errorf("got %d lines with %s, want one: %q", n, want, lines)
			}
		}
		for i := range 2 * diagnosis.MaxUnhandled {
			send(1, receiver.Raw{Name: fmt.Sprint("made up ", i), Payload: []byte{0xc0}})
		}
		if lines, _ := j.about(text); len(lines) != diagnosis.MaxUnhandled {
			t.Errorf("got %d lines, want %d", len(lines), diagnosis.MaxUnhandled)
		}
		const want = 12 + 2*diagnosis.MaxUnhandled
		if got := w.nodes[0].Status().Dropped[messaging.DropNoHandler]; got != want {
			t.Errorf("counted %d, want %d", got, want)
		}
		if err := w.nodes[0].Send(t.Context(), address(0), note{}); !errors.Is(err, receiver.ErrUnknown) {
			t.Errorf("Send to itself: got %v, want ErrUnknown", err)
		}
	})
}
