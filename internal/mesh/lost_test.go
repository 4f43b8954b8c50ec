// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// lossTest is a peer whose connections end in a test.
type lossTest struct {
	*testing.T
	*peer
	handler *losses
}

func (p lossTest) connect(run uint64) *link {
	p.Helper()
	l := newLink(p.peer, idleConn{}, Ends{Dialer: addrA, ID: run})
	l.who = member.Identity{Address: addrA, Incarnation: run}
	if refusal := p.adoptLink(l, ""); refusal != nil {
		p.Fatal(refusal)
	}
	return l
}

// offer queues a frame on the connection.
func (p lossTest) offer() {
	p.Helper()
	l, err := p.offerFrame(&p.flows[transport.Custom], []byte("x"), SendMode{})
	if l == nil || err != nil {
		p.Fatalf("offerFrame: got %v, %v, want the connection", l, err)
	}
}

// sendUrgentFrame sends an urgent frame.
func (p lossTest) sendUrgentFrame() {
	d := Destination{mesh: p.mesh, addr: p.addr}
	d.peer.Store(p.peer)
	d.SendUrgent(transport.Custom, []byte("x"))
}

// drain starts to leave a link because the peer is leaving it.
func (p lossTest) drain(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.started = true
	p.drainLink(l)
}

func (p lossTest) leave(l *link) {
	p.drain(l)
	l.setLeft()
}

// releaseReaders reports that all frames of a link were delivered.
func releaseReaders(l *link) {
	for k := range transport.Kinds {
		l.read[k].release()
	}
}

// lostRuns lists the runs for which Lost was called.
func (p lossTest) lostRuns() (runs []uint64) {
	p.handler.mu.Lock()
	defer p.handler.mu.Unlock()
	for _, who := range p.handler.lost {
		runs = append(runs, who.Incarnation)
	}
	return runs
}

// lossCase describes what happens to the connections of a peer, and for which runs Lost
// must be called.
type lossCase struct {
	name  string
	steps func(p lossTest)
	now   []uint64 // immediately
	later []uint64 // in the end
	wait  int      // number of frames that still wait at the end
}

func (c lossCase) check(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &losses{}
		p := lossTest{t, newPeer(&Mesh{handler: h}, addrA), h}
		c.steps(p)
		if got := p.lostRuns(); !slices.Equal(got, c.now) {
			t.Errorf("%s: lost %v immediately, want %v", c.name, got, c.now)
		}
		time.Sleep(2 * drainTimeout)
		synctest.Wait()
		if got := p.lostRuns(); !slices.Equal(got, c.later) {
			t.Errorf("%s: lost %v, want %v", c.name, got, c.later)
		}
		if got := p.flows[transport.Custom].frames; got != c.wait {
			t.Errorf("%s: %d frames wait, want %d", c.name, got, c.wait)
		}
	})
}

// TestLossIsReported checks that Lost is called before any frame of a later run is
// delivered, and is not called if nothing was lost.
func TestLossIsReported(t *testing.T) {
	for _, c := range []lossCase{
		{"before it started", func(p lossTest) {
			l := p.connect(1)
			p.offer()
			l.end(transport.CodeClosed, "", nil)
		}, []uint64{1}, []uint64{1}, 0},
		{"before it started, without a frame", func(p lossTest) {
			p.connect(1).end(transport.CodeClosed, "", nil)
		}, nil, nil, 0},
		{"left, and no other connection follows", func(p lossTest) {
			l := p.connect(1)
			p.offer()
			p.leave(l)
			l.end(transport.CodeLeft, "", nil)
		}, nil, []uint64{1}, 0},
		{"left, and the same run connects", func(p lossTest) {
			l := p.connect(1)
			p.offer()
			p.leave(l)
			l.end(transport.CodeLeft, "", nil)
			p.connect(1)
		}, nil, nil, 1},
		{"left, and a later run connects", func(p lossTest) {
			l := p.connect(1)
			p.offer()
			p.leave(l)
			l.end(transport.CodeLeft, "", nil)
			p.connect(2)
		}, []uint64{1}, []uint64{1}, 0},
		{"left beside the same run", func(p lossTest) {
			l := p.connect(1)
			p.offer()
			p.leave(l)
			p.connect(1)
			l.end(transport.CodeLeft, "", nil)
		}, nil, nil, 1},
		{"left beside a later run", func(p lossTest) {
			l := p.connect(1)
			p.leave(l)
			p.connect(2)
			l.end(transport.CodeLeft, "", nil)
		}, []uint64{1}, []uint64{1}, 0},
		{"being left, and a later run connects before its end arrives", func(p lossTest) {
			l := p.connect(1)
			p.drain(l)
			releaseReaders(l)
			p.connect(2)
		}, []uint64{1}, []uint64{1}, 0},
		{"being left beside a later run, and its end never arrives", func(p lossTest) {
			l := p.connect(1)
			p.drain(l)
			p.connect(2)
			releaseReaders(l)
		}, nil, []uint64{1}, 0},
	} {
		c.check(t)
	}
}

// TestLossAfterAConnectionThatNeverStarted checks that a loss is reported if a connection replaces
// another connection to the same run and ends before it starts. Answers to earlier frames may be
// lost with this connection.
func TestLossAfterAConnectionThatNeverStarted(t *testing.T) {
	for _, c := range []lossCase{
		{"left, the same run connects but never starts, a later run connects", func(p lossTest) {
			l := p.connect(1)
			p.leave(l)
			l.end(transport.CodeLeft, "", nil)
			p.connect(1).end(transport.CodeClosed, "", nil)
			p.connect(2)
		}, []uint64{1}, []uint64{1}, 0},
		{"left beside the same run, which ends before it starts", func(p lossTest) {
			l := p.connect(1)
			p.leave(l)
			next := p.connect(1)
			l.end(transport.CodeLeft, "", nil)
			next.end(transport.CodeClosed, "", nil)
		}, []uint64{1}, []uint64{1}, 0},
		{"left beside the same run, which a later one replaces before it starts", func(p lossTest) {
			l := p.connect(1)
			p.leave(l)
			p.connect(1)
			l.end(transport.CodeLeft, "", nil)
			p.connect(2)
		}, []uint64{1}, []uint64{1}, 0},
	} {
		c.check(t)
	}
}

// TestPeerWithUndeliveredFramesIsKept checks that a peer with undelivered frames is not forgotten.
// Otherwise frames of a new peer at the same address could overtake the undelivered frames.
func TestPeerWithUndeliveredFramesIsKept(t *testing.T) {
	p := lossTest{t, newPeer(&Mesh{handler: &losses{}}, addrA), &losses{}}
	l := p.connect(1)
	l.started = true
	l.end(transport.CodeClosed, "", nil)
	p.dialing = false // the test has no network
	if p.isIdle() {
		t.Error("isIdle: got true while the handler has frames, want false")
	}
	releaseReaders(l)
	if !p.isIdle() {
		t.Error("isIdle: got false after all frames were delivered, want true")
	}
}

// TestUrgentFramesAreKept checks that an urgent frame that is sent between two connections is
// written on the next one to the same run, and that dropping it for a later run is no loss.
func TestUrgentFramesAreKept(t *testing.T) {
	for _, c := range []lossCase{
		{"left, and the same run connects", func(p lossTest) {
			l := p.connect(1)
			p.leave(l)
			p.sendUrgentFrame()
			l.end(transport.CodeLeft, "", nil)
			p.sendUrgentFrame()
			p.connect(1)
		}, nil, nil, 2},
		{"failed, and the same run connects", func(p lossTest) {
			l := p.connect(1)
			l.started = true
			l.end(transport.CodeClosed, "", nil)
			p.sendUrgentFrame()
			p.connect(1)
		}, []uint64{1}, []uint64{1}, 1},
		{"failed, and a later run connects", func(p lossTest) {
			l := p.connect(1)
			l.started = true
			l.end(transport.CodeClosed, "", nil)
			p.sendUrgentFrame()
			p.connect(2)
		}, []uint64{1}, []uint64{1}, 0},
	} {
		c.check(t)
	}
}
