// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/transport"
)

func testGreetMaps(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	a.Notify(addr(2), []byte("to b"))
	eventually(t, time.Second, "b has received the frame", b.hasReceived(transport.System, 1))
	b.Notify(addr(1), []byte("to a"))
	eventually(t, time.Second, "a has received the frame", a.hasReceived(transport.System, 1))

	if got := b.receivedBy(transport.System)[0]; got != a.greet.From {
		t.Errorf("b received a frame from %v, want %v", got, a.greet.From)
	}
	for _, n := range []*node{a, b} {
		other := addr(3 - int(n.address().Host[len(n.address().Host)-1]-'0'))
		p := n.peer(other)
		if !p.Connected || p.Dialed != (n == a) || p.Identity.Address != other {
			t.Errorf("%v: wrong state of peer %v: %+v", n.address(), other, p)
		}
		s := n.Stats()
		if s.Connections != 1 || s.Handshakes[mesh.ResultEstablished.String()] != 1 || s.Duplicates != 0 {
			t.Errorf("%v: stats %+v, want one connection", n.address(), s)
		}
		if s.Sent[transport.System] != (transport.Traffic{Messages: 1, Bytes: 4}) {
			t.Errorf("%v: sent %+v, want 1 message of 4 bytes", n.address(), s.Sent)
		}
		if s.Received[transport.System] != (transport.Traffic{Messages: 1, Bytes: 4}) {
			t.Errorf("%v: received %+v, want 1 message of 4 bytes", n.address(), s.Received)
		}
		greet := n.admitted[0].Body.(message.Greet)
		if len(n.admitted) != 1 || greet.Active != (n == b) {
			t.Errorf("%v: admitted %+v, want one greet with Active=%v", n.address(), n.admitted, n == b)
		}
	}
}

func testMismatches(t *testing.T, w World) {
	tests := []struct {
		field string
		edit  func(*message.Greet)
	}{
		{"Cluster", func(g *message.Greet) { g.Cluster = "other" }},
		{"Size", func(g *message.Greet) { g.Size = 5 }},
		{"HeartbeatInterval", func(g *message.Greet) { g.Timings.HeartbeatInterval++ }},
		{"HeartbeatTimeout", func(g *message.Greet) { g.Timings.HeartbeatTimeout++ }},
		{"LeaderTimeout", func(g *message.Greet) { g.Timings.LeaderTimeout++ }},
		{"LeaseTimeout", func(g *message.Greet) { g.Timings.LeaseTimeout++ }},
		{"TTLTimeout", func(g *message.Greet) { g.Timings.TTLTimeout++ }},
		{"RetryInterval", func(g *message.Greet) { g.Timings.RetryInterval++ }},
		{"ClusterID", func(g *message.Greet) { g.ClusterID[0]++ }},
		{"Protocol", func(g *message.Greet) { g.MinProtocol, g.MaxProtocol = 3, 4 }},
	}
	a := join(t, w, addr(1))
	for i, test := range tests {
		at := addr(2 + i)
		s := defaults(at)
		s.edit(test.edit)
		b := joinAs(t, w, at, s)
		b.Notify(addr(1), []byte("hello"))
		eventually(t, 2*time.Second, "the dialer has refused a different "+test.field, refusedFor(b,
			test.field))
		eventually(t, 2*time.Second, "the dialed node has refused a different "+test.field, refusedFor(a,
			test.field))
		if a.peer(at).Connected || b.peer(addr(1)).Connected {
			t.Errorf("different %s: the nodes are connected, want the connection refused", test.field)
		}
		if err := b.Close(); err != nil {
			t.Errorf("different %s: Close: %v", test.field, err)
		}
	}
	if got := a.received(transport.System); len(got) != 0 {
		t.Errorf("received frames from refused peers: %q", got)
	}
	if got := a.Stats().Handshakes[mesh.ResultRefused.String()]; got < uint64(len(tests)) {
		t.Errorf("refused %d handshakes, want at least %d", got, len(tests))
	}
}

// refusedFor returns a condition that holds once the node has refused a peer because the named
// field differs.
func refusedFor(n *node, field string) func() bool {
	return func() bool {
		for _, err := range n.reported(mesh.ReportRefused) {
			mismatch, ok := errors.AsType[*transport.ConfigMismatchError](err)
			if ok && mismatch.Field == field {
				return true
			}
		}
		return false
	}
}

func testSelf(t *testing.T, w World) {
	a := join(t, w, addr(1))
	a.Notify(addr(1), []byte("to myself"))
	if got := a.Stats().Dropped[mesh.DropNoPeer.String()]; got != 1 {
		t.Errorf("Notify to its own address: dropped %d frames, want 1", got)
	}
	err := a.Send(context.Background(), addr(1), []byte("to myself"))
	if !errors.Is(err, mesh.ErrSelf) {
		t.Errorf("Send to its own address: got %v, want ErrSelf", err)
	}

	twin := joinAs(t, w, addr(2), defaults(addr(1))) // advertises a's address
	twin.greet.From.Incarnation = 2
	b := join(t, w, addr(3))
	b.Notify(addr(2), []byte("hello"))
	for _, n := range []*node{b, twin} {
		eventually(t, 2*time.Second, "the wrong address has been refused", refusedFor(n, "Advertise"))
	}
	a.Notify(addr(2), []byte("hello"))
	for _, n := range []*node{a, twin} {
		eventually(t, 2*time.Second, "its own address has been refused", func() bool {
			errs := n.reported(mesh.ReportRefused)
			return len(errs) > 0 && errors.Is(errs[len(errs)-1], mesh.ErrSelf)
		})
	}
}

func testSeedsDiffer(t *testing.T, w World) {
	s := defaults(addr(2))
	s.edit(func(g *message.Greet) { g.SeedDigest = 8 })
	a, b := join(t, w, addr(1)), joinAs(t, w, addr(2), s)
	connect(t, a, b)
	for _, n := range []*node{a, b} {
		errs := n.reported(mesh.ReportSeedsDiffer)
		if len(errs) != 1 || !errors.Is(errs[0], mesh.ErrSeedsDiffer) {
			t.Errorf("%v: got warnings %v, want one ErrSeedsDiffer", n.address(), errs)
		}
	}
}

// testLeavingIsNoRefusal dials a node that is shutting down, which must close the
// connection with CodeClosed.
func testLeavingIsNoRefusal(t *testing.T, w World) {
	a := join(t, w, addr(1))
	b := join(t, w, addr(2))
	connect(t, b, a)
	a.stop(transport.System)
	b.Notify(addr(1), []byte("holds up Close"))
	time.Sleep(100 * time.Millisecond)
	closed := make(chan error)
	go func() { closed <- a.Close() }() // waits for the handler
	time.Sleep(100 * time.Millisecond)
	stranger := listenRaw(t, w, addr(9))
	r := dialRaw(t, stranger, addr(1))
	if err := r.greet(addr(9), addr(1), 1); err == nil {
		t.Error("a node that is shutting down accepted a new connection")
	}
	if code, err := r.closed(); code != transport.CodeClosed || err != nil {
		t.Errorf("closed with %v, %v; want %v", code, err, transport.CodeClosed)
	}
	a.resume(transport.System)
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

func testEarlierRun(t *testing.T, w World) {
	a := join(t, w, addr(1))
	s := defaults(addr(2))
	s.greet.From.Incarnation = 5
	b := joinAs(t, w, addr(2), s)
	connect(t, b, a)

	s.greet.From.Incarnation = 4
	earlier := joinAs(t, w, addr(3), s) // another process that advertises b's address
	earlier.Notify(addr(1), []byte("stale"))
	eventually(t, time.Second, "the earlier run has been refused", func() bool {
		errs := earlier.reported(mesh.ReportRefusedByPeer)
		if len(errs) == 0 {
			return false
		}
		closed, ok := errors.AsType[*transport.CloseError](errs[0])
		return ok && closed.Code == transport.CodeEarlierRun
	})
	if got := a.peer(addr(2)).Identity; got != b.greet.From {
		t.Errorf("a is connected to %v, want %v", got, b.greet.From)
	}
	connect(t, a, b)
}

func testRestart(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	b.stop(transport.Custom)
	fill(t, a, b)
	w.Kill(addr(2))
	s := defaults(addr(2))
	s.greet.From.Incarnation = 2
	b = joinAs(t, w, addr(2), s)
	start := time.Now()
	b.Notify(addr(1), []byte("back"))
	eventually(t, time.Second, "a has received the frame of the later run",
		a.hasReceived(transport.System, 1))
	if took := time.Since(start); took > 100*time.Millisecond {
		t.Errorf("the frame of the later run took %v, want at most 100 ms", took)
	}
	if got := a.lostPeers(); len(got) != 1 || got[0].Incarnation != 1 {
		t.Errorf("a got Lost for %v, want only the earlier run", got)
	}
	if got := a.peer(addr(2)).Identity; got != s.greet.From {
		t.Errorf("a is connected to %v, want %v", got, s.greet.From)
	}
	a.Notify(addr(2), []byte("welcome"))
	eventually(t, time.Second, "the later run has received the frame",
		b.hasReceived(transport.System, 1))
	if err := a.Send(context.Background(), addr(2), []byte("fresh")); err != nil {
		t.Errorf("Send to the later run: %v", err)
	}
	eventually(t, time.Second, "the later run has received the frame",
		b.hasReceived(transport.Custom, 1))
	if got := b.received(transport.Custom); got[0] != "fresh" {
		t.Errorf("the later run received %.20q, which was sent to the earlier one", got[0])
	}
	if got := a.Stats().Connections; got != 1 {
		t.Errorf("a has %d connections, want 1", got)
	}
}
