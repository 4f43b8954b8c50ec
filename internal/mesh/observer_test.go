// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// TestCheckGreetOfObservers checks that an observer need not know size and timings, but everything
// else is compared, and that only a dialer can be an observer.
func TestCheckGreetOfObservers(t *testing.T) {
	edit := func(change func(*message.Message, *message.Greet)) (ours, theirs message.Message) {
		ours, theirs = greets()
		ours.From.Address = member.ObserverAddress("o")
		theirs.To = ours.From.Address
		body := ours.Body.(message.Greet)
		body.Size, body.Timings, body.SeedDigest = 1, message.Timings{}, 0
		change(&ours, &body)
		ours.Body = body
		return ours, theirs
	}
	for i, c := range []struct {
		change func(*message.Message, *message.Greet)
		want   string // empty: accepted
	}{
		{func(*message.Message, *message.Greet) {}, ""},
		{func(_ *message.Message, g *message.Greet) { g.Cluster = "other" }, "Cluster"},
		{func(_ *message.Message, g *message.Greet) { g.MinProtocol, g.MaxProtocol = 7, 8 }, "Protocol"},
		{func(m *message.Message, _ *message.Greet) { m.To = addrA }, "advertised address"},
		{func(m *message.Message, _ *message.Greet) { m.From.Address = addrA }, "Size"},
	} {
		for _, err := range bothWays(edit(c.change)) {
			if c.want == "" && err != nil || c.want != "" && !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("case %d: got %v, want %q", i, err, c.want)
			}
		}
	}
	ours, theirs := greets()
	theirs.From.Address = member.ObserverAddress("o") // which was dialed
	ours.To = theirs.From.Address
	for _, err := range bothWays(ours, theirs) {
		if !errors.Is(err, ErrNotGreet) {
			t.Errorf("a passive observer: got %v, want ErrNotGreet", err)
		}
	}
	both := theirs
	both.From.Address = member.ObserverAddress("p")
	ours.From.Address, ours.To = member.ObserverAddress("o"), both.From.Address
	both.To = ours.From.Address
	for _, err := range bothWays(ours, both) {
		if !errors.Is(err, ErrNotGreet) {
			t.Errorf("two observers: got %v, want ErrNotGreet", err)
		}
	}
}

// TestObserversAreBounded checks the limit, that it leaves the room for members alone, and that
// observers that are gone are forgotten.
func TestObserversAreBounded(t *testing.T) {
	const limit = 100
	m, err := New(Config{
		Encode: func(message.Message) ([]byte, error) { return nil, nil },
		Decode: func([]byte) (message.Message, error) { return message.Message{}, nil },
		Key:    func(member.StoreID) storekey.Key { return storekey.Key{} },
		Size:   3, Observers: limit,
	}, withoutNetwork)
	if err != nil {
		t.Fatal(err)
	}
	var held []*peer
	for i := range limit {
		p, err := m.holdPeer(member.ObserverAddress(fmt.Sprint(i)))
		if err != nil {
			t.Fatalf("observer %d: %v", i, err)
		}
		held = append(held, p)
	}
	more := member.ObserverAddress("more")
	if _, err := m.holdPeer(more); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("beyond the limit: got %v, want a refusal", err)
	}
	for i := range m.cfg.maxPeers() {
		if _, err := m.holdPeer(member.Address{Host: fmt.Sprint(i), Port: 1}); err != nil {
			t.Fatalf("peer %d beside the observers: %v", i, err)
		}
	}
	held[7].release()
	if _, err := m.holdPeer(more); err != nil || m.observers != limit {
		t.Errorf("after one has left: got %v and %d observers", err, m.observers)
	}
}

// TestObserverStreamsAreBounded checks that all observers together have a limit for their streams.
func TestObserverStreamsAreBounded(t *testing.T) {
	m := Mesh{cfg: Config{Workers: 7}}
	for i := range maxObserverStreams + 7 {
		if !m.takeObserverStream() {
			t.Fatalf("stream %d is refused", i)
		}
	}
	for range 2 {
		if m.takeObserverStream() {
			t.Error("a stream beyond the limit is accepted")
		}
	}
	if m.observerStreams.Add(-1); !m.takeObserverStream() {
		t.Error("a stream is refused although one has ended")
	}
}

// TestWrittenBatchesAreFreed checks which memory a link keeps after a write: 1,024 idle observers
// must not keep 64 KiB each.
func TestWrittenBatchesAreFreed(t *testing.T) {
	for _, c := range []struct {
		peer  member.Address
		bytes int
		want  bool
	}{
		{addrB, 2 * pendingBytes, true},
		{addrB, 2*pendingBytes + 1, false},
		{member.ObserverAddress("o"), observerBufferBytes, true},
		{member.ObserverAddress("o"), MaxObserverBytes, false},
	} {
		l := newLink(newPeer(&Mesh{self: addrA}, c.peer), idleConn{}, Ends{})
		l.batch[transport.Answer] = batch{bytes: make([]byte, c.bytes), frames: 1}
		l.finishBatch(transport.Answer, nil)
		if kept := cap(l.batch[transport.Answer].bytes); kept > 0 != c.want {
			t.Errorf("%v: keeps %d of %d bytes", c.peer, kept, c.bytes)
		}
	}
}
