// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/lowest"
)

// golden are encoded messages. If an encoding changes, format must change too.
var golden = []struct {
	message groupMessage
	hex     string
}{
	{
		groupMessage{group: "g", Message: lowest.Message{
			Kind: lowest.Proposal, Member: "a", Run: 1, Seq: 2, Term: 3, Age: 4 * time.Millisecond,
		}},
		"01" + "00000004" + "0000000000000001" + "0000000000000002" + "0000000000000003" +
			"0167" + "0161",
	},
	{
		groupMessage{group: "jobs", relayed: true, Message: lowest.Message{
			Kind: lowest.Declaration, Member: "bb", Run: 1 << 63, Seq: 1 << 32, Term: 1 << 16,
			Age: time.Hour,
		}},
		"82" + "0036ee80" + "8000000000000000" + "0000000100000000" + "0000000000010000" +
			"046a6f6273" + "026262",
	},
	{
		groupMessage{group: "é", Message: lowest.Message{Kind: lowest.Resignation, Member: "z"}},
		"03" + "00000000" + "0000000000000000" + "0000000000000000" + "0000000000000000" +
			"02c3a9" + "017a",
	},
}

func TestGoldenLetters(t *testing.T) {
	var packet []byte
	for _, g := range golden {
		if got := hex.EncodeToString(g.message.bytes()); got != g.hex {
			t.Errorf("%+v is\n%s, want\n%s", g.message, got, g.hex)
		}
		packet = append(packet, g.message.bytes()...)
	}
	packet = packMessages("me", packet)
	if want := []byte{1, 2, 'm', 'e'}; !bytes.HasPrefix(packet, want) {
		t.Errorf("a packet begins with %x, want %x", packet[:4], want)
	}
	sender, got, err := unpackMessages(packet)
	if err != nil || sender != "me" || len(got) != len(golden) {
		t.Fatalf("unpack: %q, %d messages, %v", sender, len(got), err)
	}
	end := len(packMessages("me"))
	ends := map[int]bool{end: true}
	for i, g := range golden {
		if got[i] != g.message {
			t.Errorf("%+v comes as %+v", g.message, got[i])
		}
		end += len(g.message.bytes())
		ends[end] = true
	}
	for n := range packet {
		if _, _, err := unpackMessages(packet[:n]); (err == nil) != ends[n] {
			t.Errorf("the first %d of %d bytes: %v", n, len(packet), err)
		}
	}
}

func TestInvalidMessagesAreRefused(t *testing.T) {
	good, long := golden[0].message, strings.Repeat("x", MaxNameBytes+1)
	for what, spoil := range map[string]func(l *groupMessage){
		"no kind":             func(l *groupMessage) { l.Kind = 0 },
		"another kind":        func(l *groupMessage) { l.Kind = 4 },
		"no group":            func(l *groupMessage) { l.group = "" },
		"a long group":        func(l *groupMessage) { l.group = long },
		"a group of two rows": func(l *groupMessage) { l.group = "a\nb" },
		"no member":           func(l *groupMessage) { l.Member = "" },
		"a long member":       func(l *groupMessage) { l.Member = long },
		"no text":             func(l *groupMessage) { l.Member = "\xff" },
		"a proposal relayed":  func(l *groupMessage) { l.relayed = true },
	} {
		l := good
		spoil(&l)
		if _, got, err := unpackMessages(packMessages("me", good.bytes(), l.bytes())); err == nil {
			t.Errorf("%s: taken as %+v", what, got)
		}
	}
	other := packMessages("me", good.bytes())
	other[0]++
	for what, b := range map[string][]byte{
		"nothing": nil, "no sender": {format}, "another format": other,
		"a sender of no text": packMessages("\xff"), "a long sender": packMessages(long),
		"a long packet": packMessages("me", bytes.Repeat(good.bytes(), packetBytes/len(good.bytes())+1)),
	} {
		if _, got, err := unpackMessages(b); err == nil {
			t.Errorf("%s: taken as %+v", what, got)
		}
	}
}

// The longest message fits into a packet.
func TestLongestLetter(t *testing.T) {
	l := golden[1].message
	l.group = strings.Repeat("g", election.MaxGroupBytes)
	l.Member = strings.Repeat("m", MaxNameBytes)
	if _, got, err := unpackMessages(packMessages(l.Member, l.bytes())); err != nil || got[0] != l {
		t.Errorf("%d bytes: %+v, %v", len(l.bytes()), got, err)
	}
}

// FuzzPacket checks that an accepted packet is valid and encodes to the same bytes.
func FuzzPacket(f *testing.F) {
	for _, g := range golden {
		f.Add(packMessages("me", g.message.bytes()))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sender, messages, err := unpackMessages(b)
		if err != nil {
			return
		}
		var again [][]byte
		for _, l := range messages {
			if !isName(l.group, election.MaxGroupBytes) || !isName(l.Member, MaxNameBytes) ||
				l.Age < 0 {
				t.Errorf("took %+v", l)
			}
			again = append(again, l.bytes())
		}
		if got := packMessages(sender, again...); !bytes.Equal(got, b) {
			t.Errorf("%x was decoded as %x", b, got)
		}
	})
}
