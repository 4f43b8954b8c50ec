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

// lossPlay is a peer whose connections end.
type lossPlay struct {
	*testing.T
	*peer
	heard *losses
}

// connect maps the peer to a connection to one of its runs.
func (p lossPlay) connect(run uint64) *link {
	p.Helper()
	l := newLink(p.peer, idleConn{}, Ends{Dialer: addrA, ID: run})
	l.who = member.Identity{Address: addrA, Incarnation: run}
	if refusal := p.adopt(l); refusal != nil {
		p.Fatal(refusal)
	}
	return l
}

// give has a frame wait for the connection.
func (p lossPlay) give() {
	p.Helper()
	if l, err := p.offer(&p.flows[transport.Custom], []byte("x")); l == nil || err != nil {
		p.Fatalf("offer: got %v, %v, want the connection", l, err)
	}
}

// leave begins to leave the connection in order.
func (p lossPlay) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.started, l.left = true, true
	p.drain(l)
}

// told lists the runs of which a loss was told.
func (p lossPlay) told() (runs []uint64) {
	p.heard.mu.Lock()
	defer p.heard.mu.Unlock()
	for _, who := range p.heard.lost {
		runs = append(runs, who.Incarnation)
	}
	return runs
}

// lossCase is what happens to the connections of a peer, and of which runs a loss is
// told then.
type lossCase struct {
	name  string
	play  func(p lossPlay)
	now   []uint64 // told at once
	later []uint64 // and in the end
	wait  int      // frames in the end
}

func (c lossCase) check(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		heard := &losses{}
		p := lossPlay{t, newPeer(&Mesh{handler: heard}, addrA), heard}
		c.play(p)
		if got := p.told(); !slices.Equal(got, c.now) {
			t.Errorf("%s: told of %v at once, want %v", c.name, got, c.now)
		}
		time.Sleep(2 * drainTimeout)
		synctest.Wait()
		if got := p.told(); !slices.Equal(got, c.later) {
			t.Errorf("%s: told of %v, want %v", c.name, got, c.later)
		}
		if got := p.flows[transport.Custom].frames; got != c.wait {
			t.Errorf("%s: %d frames wait, want %d", c.name, got, c.wait)
		}
	})
}

// TestLossIsTold before a later run of the peer is heard, and not where nothing was
// lost.
func TestLossIsTold(t *testing.T) {
	for _, c := range []lossCase{
		{"before it started", func(p lossPlay) {
			l := p.connect(1)
			p.give()
			l.end(transport.CodeClosed, "", nil)
		}, []uint64{1}, []uint64{1}, 0},
		{"before it started, and nothing was given", func(p lossPlay) {
			p.connect(1).end(transport.CodeClosed, "", nil)
		}, nil, nil, 0},
		{"left, and nobody comes", func(p lossPlay) {
			l := p.connect(1)
			p.give()
			p.leave(l)
			l.end(transport.CodeLeft, "", nil)
		}, nil, []uint64{1}, 0},
		{"left, and the same run comes", func(p lossPlay) {
			l := p.connect(1)
			p.give()
			p.leave(l)
			l.end(transport.CodeLeft, "", nil)
			p.connect(1)
		}, nil, nil, 1},
		{"left, and a later run comes", func(p lossPlay) {
			l := p.connect(1)
			p.give()
			p.leave(l)
			l.end(transport.CodeLeft, "", nil)
			p.connect(2)
		}, []uint64{1}, []uint64{1}, 0},
		{"left beside the same run", func(p lossPlay) {
			l := p.connect(1)
			p.give()
			p.leave(l)
			p.connect(1)
			l.end(transport.CodeLeft, "", nil)
		}, nil, nil, 1},
		{"left beside a later run", func(p lossPlay) {
			l := p.connect(1)
			p.leave(l)
			p.connect(2)
			l.end(transport.CodeLeft, "", nil)
		}, []uint64{1}, []uint64{1}, 0},
	} {
		c.check(t)
	}
}

// TestLossBehindWhatNeverStarted: what was sent on a connection that was left is
// answered on the next one to the same run.
func TestLossBehindWhatNeverStarted(t *testing.T) {
	for _, c := range []lossCase{
		{"left, the same run comes and ends before it starts, a later one comes", func(p lossPlay) {
			l := p.connect(1)
			p.leave(l)
			l.end(transport.CodeLeft, "", nil)
			p.connect(1).end(transport.CodeClosed, "", nil)
			p.connect(2)
		}, []uint64{1}, []uint64{1}, 0},
		{"left beside the same run, which ends before it starts", func(p lossPlay) {
			l := p.connect(1)
			p.leave(l)
			next := p.connect(1)
			l.end(transport.CodeLeft, "", nil)
			next.end(transport.CodeClosed, "", nil)
		}, []uint64{1}, []uint64{1}, 0},
		{"left beside the same run, which a later one replaces before it starts", func(p lossPlay) {
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

// TestPeerWithFramesToHandOverIsKept: forgotten, it would come back as another one
// whose frames wait for nothing.
func TestPeerWithFramesToHandOverIsKept(t *testing.T) {
	p := lossPlay{t, newPeer(&Mesh{handler: &losses{}}, addrA), &losses{}}
	l := p.connect(1)
	l.started = true
	l.end(transport.CodeClosed, "", nil)
	p.dialing = false // the test has no network
	if p.idle() {
		t.Error("it may be forgotten while a handler has its frames")
	}
	for k := range transport.Kinds {
		l.read[k].release()
	}
	if !p.idle() {
		t.Error("it is kept for ever")
	}
}
