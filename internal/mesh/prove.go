// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const (
	// probePause is the shortest time between the starts of two probes of an address, and maxProbing
	// bounds the probes in flight. A process that has just started does not know the earlier probes,
	// but answers a new one.
	probePause = 200 * time.Millisecond
	maxProbing = 5
	// maxWaiting bounds the greetings that wait for the proof of one address.
	maxWaiting = 2
	// backPause is the time after which this node dials the address of a member that has connected,
	// and then again while that fails. The dials of a start come first.
	backPause = 10 * time.Second
)

// A probe is a connection that a node dials only to learn which store answers at an address. Its
// Ends.ID is 0. Both ends greet, and neither adopts it.

// proof is what a node knows about the store that answers at the address of a peer.
type proof struct {
	store   member.StoreID // that answered last; zero if none has
	at      time.Time      // when it answered
	self    bool           // whether the last probe led to this node itself
	probing int            // number of probes in flight
	probed  time.Time      // when the last probe began
	waiting int            // number of greetings that wait
	changed chan struct{}  // closed when a probe ends; nil if no greeting waits
	yielded bool           // whether a dial has waited for a proof since the peer was last dialed
}

// isProved reports whether a store has just answered at the address. p.mu must be held.
func (p *peer) isProved(store member.StoreID) bool {
	return p.proof.store == store && time.Since(p.proof.at) < maxQueuedTime
}

// yieldsToProof reports whether no connection needs to be dialed now, because one that the peer
// dialed probably waits for proof. That happens once while the peer is dialed, and never if the
// state lists the peer: greetings of other processes cannot keep this node from dialing. p.mu must
// be held.
func (p *peer) yieldsToProof() bool {
	if p.proof.waiting == 0 || p.proof.yielded || p.cur != nil ||
		!p.mesh.handler.StoreOf(p.addr).IsZero() {
		return false
	}
	p.proof.yielded = true
	return true
}

// comesFromAddress reports whether the packets of a connection arrive from the address of the peer
// itself, and those of a probe would take the same path and reach the same process.
func (p *peer) comesFromAddress(conn transport.Conn) bool {
	return conn.Remote() == p.addr && conn.ProvesRemote()
}

// proveTimeout bounds how long a greeting waits for proof: a probe over TLS takes four round trips,
// and no member has one as long as HeartbeatTimeout.
func (m *Mesh) proveTimeout() time.Duration { return 4 * m.silence }

// proveAddress probes the address before a greeting on conn is answered, if no state lists the
// store that greets, the peer has no connection, and conn does not prove the address. It blocks for
// at most m.proveTimeout.
func (p *peer) proveAddress(store member.StoreID, conn transport.Conn) {
	if p.addr.IsObserver() || p.comesFromAddress(conn) || p.mesh.handler.StoreOf(p.addr) == store {
		return
	}
	end := time.NewTimer(p.mesh.proveTimeout())
	defer end.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proof.waiting >= maxWaiting {
		return
	}
	p.proof.waiting++
	defer func() { p.proof.waiting-- }()
	for !p.leaving && p.cur == nil && !p.isProved(store) {
		pause := probePause - time.Since(p.proof.probed)
		switch {
		case pause <= 0:
			p.startProbe()
			continue
		case p.proof.probing == 0: // the last probe has not found the store
			return
		}
		if p.proof.changed == nil {
			p.proof.changed = make(chan struct{})
		}
		changed := p.proof.changed
		p.mu.Unlock()
		ended := false
		select {
		case <-changed:
		case <-time.After(pause):
		case <-end.C:
			ended = true
		}
		p.mu.Lock()
		if ended {
			return
		}
	}
}

// startProbe starts a probe unless too many are in flight. p.mu must be held, and p.leaving must be
// false.
func (p *peer) startProbe() {
	p.proof.probed = time.Now()
	if p.proof.probing >= maxProbing {
		return
	}
	p.proof.probing++
	p.mesh.work.Go(func() {
		store, err := p.probeAddress()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.proof.probing--
		p.noteProbe(store, err)
	})
}

// noteProbe records the result of a probe. p.mu must be held.
func (p *peer) noteProbe(store member.StoreID, err error) {
	p.proof.self = errors.Is(err, ErrSelf)
	if err == nil {
		p.proof.store, p.proof.at = store, time.Now()
		if p.cur != nil && p.cur.who.StoreID == store {
			p.cur.proved, p.contest = true, contest{}
		}
	}
	if p.proof.changed != nil && (err == nil || p.proof.probing == 0) {
		close(p.proof.changed)
		p.proof.changed = nil
	}
}

// dialBack probes the address of a member that has connected, until it answers there or the link
// ends, and reports each failure. The link works meanwhile, but if it is lost, only the member can
// replace it.
func (p *peer) dialBack(l *link) {
	for pause := backPause/2 + rand.N(backPause/2); ; pause = reportInterval {
		select {
		case <-time.After(pause):
		case <-l.done:
			return
		}
		p.mu.Lock()
		due := p.cur == l && !l.proved && !p.leaving
		p.mu.Unlock()
		if !due {
			return
		}
		store, err := p.probeAddress()
		p.mu.Lock()
		p.noteProbe(store, err)
		due = p.cur == l && !l.proved && !p.leaving
		p.mu.Unlock()
		if !due {
			return
		}
		if err == nil {
			err = errors.New("another store answers there")
		}
		p.mesh.reports.report(Report{ReportOneWay, p.addr, fmt.Errorf("transport: it has connected "+
			"from %s, but cannot be dialed at the address that it advertises (%w): correct the address, "+
			"the name in DNS, or the firewall", l.conn.Remote(), err)})
	}
}

// probeAddress returns the store that answers at the address.
func (p *peer) probeAddress() (store member.StoreID, err error) {
	m := p.mesh
	ctx, cancel := context.WithTimeout(m.ctx, m.proveTimeout())
	defer cancel()
	conn, err := m.net.Dial(ctx, p.addr)
	if err != nil {
		return store, err
	}
	defer conn.Close(transport.CodeDuplicate, probeReason)
	stop := context.AfterFunc(ctx, func() { conn.Close(transport.CodeTimeout, probeReason) })
	defer stop()
	_, theirs, err := m.greetAs(conn, p.addr, Ends{})
	return theirs.From.StoreID, err
}

// greetAs exchanges greetings on a connection that this node dialed but does not adopt. The reader
// returns what the peer sends after its greeting.
func (m *Mesh) greetAs(
	conn transport.Conn, to member.Address, ends Ends,
) (reader *frameReader, theirs message.Message, err error) {
	if err := m.checkIdentity(conn, to); err != nil {
		return nil, theirs, err
	}
	ours := m.ownGreet(conn, to, true)
	reader = newFrameReader(conn.Stream(transport.System), maxGreetBytes)
	theirs, err = m.exchangeGreets(conn, reader, ends.encodePrefix(), ours)
	if err == nil {
		err = CheckGreet(ours, theirs)
	}
	if err == nil {
		err = checkProof(conn, theirs)
	}
	return reader, theirs, err
}
