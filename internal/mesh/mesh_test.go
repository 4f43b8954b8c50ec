// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// withoutNetwork is for tests that make no connections.
func withoutNetwork(transport.Config) (transport.Network, error) { return nil, nil }

func TestConfigNamesEveryFault(t *testing.T) {
	_, err := New(Config{CustomBytes: MaxCustomBytes + 1}, withoutNetwork)
	for _, want := range []string{"Encode", "Size 0", "CustomBytes 16777217"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New with an empty config: %v does not name %s", err, want)
		}
	}
}

func TestSystemQueueDropsTheOldest(t *testing.T) {
	var q systemQueue
	now := time.Unix(0, 0)
	dropped := 0
	for i := range 100 {
		dropped += q.push(fmt.Append(nil, i), now)
	}
	if want := 100 - maxQueuedFrames; dropped != want {
		t.Errorf("100 frames: %d dropped, want %d", dropped, want)
	}
	b := q.take(nil)
	if b.frames != maxQueuedFrames || string(b.bytes[headerBytes:headerBytes+2]) != "36" {
		t.Errorf("took %d frames from %q on, want %d from 36 on", b.frames, b.bytes[:6], maxQueuedFrames)
	}
	for range 3 {
		dropped = q.push(make([]byte, maxQueuedBytes/2), now)
	}
	if dropped != 1 || q.bytes != maxQueuedBytes {
		t.Errorf("3 frames of half the limit: %d dropped, %d bytes kept", dropped, q.bytes)
	}
	if got := q.clear(); got != 2 || !q.empty() {
		t.Errorf("cleared %d frames, want 2", got)
	}
}

func TestSystemQueueExpires(t *testing.T) {
	var q systemQueue
	start := time.Unix(0, 0)
	for i := range 4 {
		q.push([]byte("x"), start.Add(time.Duration(i)*time.Second))
	}
	if got := q.expire(start.Add(maxQueuedTime)); got != 0 {
		t.Errorf("at the age of %v: %d expired, want 0", maxQueuedTime, got)
	}
	if got := q.expire(start.Add(maxQueuedTime + time.Second + 1)); got != 2 {
		t.Errorf("a second later: %d expired, want 2", got)
	}
	if q.bytes != 2 {
		t.Errorf("%d bytes are left, want 2", q.bytes)
	}
}

func TestFlowTakesOneLongFrameAlone(t *testing.T) {
	var q flow
	if !q.push(make([]byte, 2*pendingBytes)) {
		t.Error("a long frame does not fit into the empty queue")
	}
	if q.push([]byte("x")) {
		t.Error("another one fits beside it")
	}
	if b := q.take(nil); b.frames != 1 || b.payload != 2*pendingBytes {
		t.Errorf("took %d frames of %d bytes", b.frames, b.payload)
	}
	if !q.push([]byte("x")) {
		t.Error("nothing fits into the queue after everything was taken")
	}
}

func TestSilence(t *testing.T) {
	const limit = time.Second
	var s silence
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, step := range []struct {
		ms    int
		heard uint64
		want  bool
	}{
		{0, 0, false},
		{900, 0, false},
		{1001, 0, true},
		{1100, 1, false},
		{2000, 1, false},
		{2101, 1, true},
		{60_000, 2, false}, // something has arrived since the last write
		{60_500, 2, false},
	} {
		if got := s.wrote(at(step.ms), step.heard, limit); got != step.want {
			t.Errorf("after %d ms, heard %d: silent %v, want %v", step.ms, step.heard, got, step.want)
		}
	}
}

func TestReportsAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := 0
		r := reporter{to: func(Report) { count++ }}
		broken, other := errors.New("broken"), errors.New("other")
		for range 10 {
			r.report(Report{ReportRefused, addrA, broken})
		}
		r.report(Report{ReportRefused, addrA, other})
		r.report(Report{ReportRefused, addrB, broken})
		r.report(Report{ReportLost, addrA, broken})
		if count != 4 {
			t.Errorf("%d reports, want 4 different ones", count)
		}
		time.Sleep(reportInterval)
		r.report(Report{ReportRefused, addrA, broken})
		r.report(Report{Kind: ReportConnected, Peer: addrA})
		r.report(Report{Kind: ReportConnected, Peer: addrA})
		if count != 7 {
			t.Errorf("%d reports, want 7: one again, two of a connection", count)
		}
		for i := range 10 * maxReported {
			r.report(Report{ReportRefused, addrA, fmt.Errorf("%d", i)})
		}
		if got := len(r.last); got > maxReported {
			t.Errorf("%d reports are remembered, want at most %d", got, maxReported)
		}
	})
}

// TestReportsOfStrangersAreBounded checks that a host with a wrong certificate causes only one
// report, regardless of its port. All dialers together must cause at most maxStrangers reports in a
// minute, whatever addresses they claim.
func TestReportsOfStrangersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := 0
		r := reporter{to: func(Report) { count++ }}
		attack := func(host string, port int) {
			r.reportStranger(Report{ReportHandshake, member.Address{Host: host, Port: uint16(port)},
				fmt.Errorf("%w: %d", transport.ErrCertificate, port)})
		}
		for port := range 1000 {
			attack("10.0.0.1", port)
			attack("10.0.0.2", port)
		}
		if count != 2 {
			t.Errorf("2 hosts, 1000 ports each: %d reports, want 2", count)
		}
		for host := range 1000 {
			attack(fmt.Sprint("10.0.1.", host), 1)
		}
		if count != maxStrangers || len(r.last) != maxStrangers {
			t.Errorf("1000 hosts: %d reports, %d remembered, want %d", count, len(r.last), maxStrangers)
		}
		r.report(Report{ReportRefused, addrB, ErrSelf})
		r.reportStranger(Report{ReportRefused, addrB, ErrSelf})
		if count != maxStrangers+1 {
			t.Errorf("and a peer of this node, twice: %d reports, want %d", count, maxStrangers+1)
		}
		time.Sleep(reportInterval)
		attack("10.0.0.1", 1)
		if count != maxStrangers+2 || len(r.last) != 1 {
			t.Errorf("a minute later: %d reports, %d remembered, want %d and 1",
				count, len(r.last), maxStrangers+2)
		}
	})
}

func TestNamesAreComplete(t *testing.T) {
	for i := range Results {
		checkName(t, i.String())
	}
	for i := range Drops {
		checkName(t, i.String())
	}
	for i := range Keep + 1 {
		checkName(t, i.String())
	}
}

func checkName(t *testing.T, name string) {
	t.Helper()
	if name == "" || strings.HasPrefix(name, "unknown") {
		t.Errorf("a name is missing: %q", name)
	}
}

func TestStartWantsAGreet(t *testing.T) {
	m, err := New(Config{
		Size:   1,
		Encode: func(message.Message) ([]byte, error) { return nil, nil },
		Decode: func([]byte) (message.Message, error) { return message.Message{}, nil },
		Key:    func(member.StoreID) storekey.Key { return storekey.Key{} },
	}, withoutNetwork)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := m.Start(mute{}); !errors.Is(err, ErrNotGreet) {
		t.Errorf("Start with a handler that does not greet: got %v, want ErrNotGreet", err)
	}
}

func TestFewConnectionsAreLeftAtOnce(t *testing.T) {
	p := newPeer(&Mesh{}, addrA)
	var links []*link
	for i := range maxDraining + 1 {
		if got := p.excessLink(); got != nil {
			t.Errorf("while %d connections are being left: %v is excess, want none", i, got)
		}
		links = append(links, newLink(p, nil, Ends{ID: uint64(i)}))
		p.drainLink(links[i])
	}
	if got := p.excessLink(); got != links[0] {
		t.Errorf("while %d connections are being left: the oldest is not excess", maxDraining+1)
	}
	for _, l := range links {
		l.deadline.Stop()
	}
}

// mute is a handler whose greeting is invalid.
type mute struct{ Handler }

func (mute) Greet() message.Message { return message.Message{} }

// TestDestinationOfForgottenPeer checks that a Destination keeps its peer while it sends, and looks
// for another one once the Mesh has forgotten it.
func TestDestinationOfForgottenPeer(t *testing.T) {
	m := unconnectedMesh(t)
	forget := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.forgetPeer(false)
	}
	d := m.Destination(member.Address{Host: "a", Port: 1})
	first, err := d.holdPeer()
	if err != nil {
		t.Fatal(err)
	}
	if forget() {
		t.Fatal("the peer was forgotten while it was held")
	}
	first.release()
	again, _ := d.holdPeer()
	if again.release(); again != first {
		t.Error("the Destination has another peer, though the first was not forgotten")
	}
	if !forget() {
		t.Fatal("the idle peer was not forgotten")
	}
	next, err := d.holdPeer()
	if err != nil || next == first || m.peers[d.addr] != next || first.holders.Load() != 0 {
		t.Errorf("after that: got peer %p, %v, want the one of the Mesh, %p", next, err, m.peers[d.addr])
	}
}

// TestClaimNamesDNS checks that a node that did not reach a process at its address names its own
// DNS too: if that is wrong, the process that it refuses is healthy.
func TestClaimNamesDNS(t *testing.T) {
	got := (&ClaimError{Address: addrA, Source: addrB}).Error()
	if want := "or the name in DNS on this host, or open its port"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
}

// TestPauseAfterAFailurePasses checks that a peer that could not be reached long ago is dialed
// without a pause.
func TestPauseAfterAFailurePasses(t *testing.T) {
	p := newPeer(&Mesh{redialCap: maxRedialCap, self: addrB}, addrA)
	p.failures, p.dialedAt = 9, time.Now()
	if wait := p.firstWait(); wait < maxRedialCap/2 {
		t.Errorf("after a failure: wait %v, want a pause", wait)
	}
	p.dialedAt = p.dialedAt.Add(-2 * maxRedialCap)
	if wait := p.firstWait(); wait > 0 {
		t.Errorf("after %v: wait %v, want none", 2*maxRedialCap, wait)
	}
}
