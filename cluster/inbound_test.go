// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"testing/synctest"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
	"github.com/athena-go/athena/wire"
)

// TestBadFramesAreDroppedAndCounted, and change nothing else.
func TestBadFramesAreDroppedAndCounted(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		n, peer := inbound{w.nodes[0]}, w.nodes[1].Self().Identity
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
		greet.Body = n.Greet().Body
		event, err := wire.EncodeEvent(wire.Event{Name: "note", Payload: []byte{0x80}}, MaxEventBytes)
		if err != nil {
			t.Fatal(err)
		}
		later := encode(sound)
		later[1]++
		for _, c := range []struct {
			name    string
			deliver func(member.Identity, []byte) error
			frame   []byte
			want    string // reason; "" when it is taken
		}{
			{"sound", n.System, encode(sound), ""},
			{"empty", n.System, nil, dropMalformed},
			{"truncated", n.System, encode(sound)[:20], dropMalformed},
			{"an event among messages", n.System, event, dropUnknownKind},
			{"of a later version", n.System, later, dropUnknownKind},
			{"of another sender", n.System, encode(forged), dropOtherSender},
			{"a second greet", n.System, encode(greet), dropMisplaced},
			{"a message among events", n.Custom, encode(sound), dropMalformed},
			{"truncated event", n.Custom, event[:4], dropMalformed},
			{"event without a handler", n.Custom, event, dropNoHandler},
		} {
			before := n.Status().Dropped
			err := c.deliver(peer, c.frame)
			closes := c.want == dropMalformed || c.want == dropOtherSender || c.want == dropMisplaced
			if (err != nil) != closes {
				t.Errorf("%s: got error %v, want one: %t", c.name, err, closes)
			}
			synctest.Wait()
			after := n.Status().Dropped
			for _, reason := range []string{
				dropMalformed, dropUnknownKind, dropOtherSender, dropMisplaced, dropNoHandler,
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
