// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// proveTimeout bounds a probe. It is shorter than greetTimeout, so that a process that waits for
// the probe of its address receives the result.
const proveTimeout = 2 * time.Second

// found is the store that answered a probe of an address.
type found struct {
	store member.StoreID
	at    time.Time
}

// isProved reports whether a store has just answered at the address. p.mu must be held.
func (p *peer) isProved(store member.StoreID) bool {
	return p.found.store == store && time.Since(p.found.at) < maxQueuedTime
}

// awaitsProof reports whether a connection of the peer probably waits for the result of a probe, so
// that no other is needed. p.mu must be held.
func (p *peer) awaitsProof() bool {
	return p.probing != nil && p.cur == nil && time.Since(p.probed) < minAttempt
}

// proveAddress probes the address before a greeting from there is answered, if no state lists the
// store that greets and the peer has no connection. It blocks for at most proveTimeout.
func (p *peer) proveAddress(store member.StoreID) {
	if p.addr.IsObserver() || p.mesh.handler.StoreOf(p.addr) == store {
		return
	}
	p.mu.Lock()
	if p.leaving || p.cur != nil || p.isProved(store) {
		p.mu.Unlock()
		return
	}
	p.startProbe()
	done := p.probing
	p.mu.Unlock()
	<-done
}

// A probe is a connection that a node dials only to learn which store answers at an address. Its
// Ends.ID is 0. Both ends greet, and neither adopts it.

// startProbe starts a probe unless one is in flight. p.mu must be held, and p.leaving must be
// false.
func (p *peer) startProbe() {
	if p.probing != nil {
		return
	}
	done := make(chan struct{})
	p.probing, p.probed = done, time.Now()
	p.mesh.work.Go(func() {
		store, err := p.probeAddress()
		p.mu.Lock()
		if err == nil {
			p.found = found{store, time.Now()}
			if p.cur != nil && p.cur.who.StoreID == store {
				p.cur.proved, p.contest = true, contest{}
			}
		}
		p.probing = nil
		p.mu.Unlock()
		close(done)
	})
}

// probeAddress returns the store that answers at the address.
func (p *peer) probeAddress() (store member.StoreID, err error) {
	m := p.mesh
	ctx, cancel := context.WithTimeout(m.ctx, proveTimeout)
	defer cancel()
	conn, err := m.net.Dial(ctx, p.addr)
	if err != nil {
		return store, err
	}
	defer conn.Close(transport.CodeDuplicate, probeReason)
	stop := context.AfterFunc(ctx, func() { conn.Close(transport.CodeTimeout, probeReason) })
	defer stop()
	if err := m.checkIdentity(conn, p.addr); err != nil {
		return store, err
	}
	ours := m.ownGreet(conn, p.addr, true)
	reader := newFrameReader(conn.Stream(transport.System), maxGreetBytes)
	theirs, err := m.exchangeGreets(conn, reader, make([]byte, endsBytes), ours)
	if err == nil {
		err = CheckGreet(ours, theirs)
	}
	if err == nil {
		err = checkProof(conn, theirs)
	}
	return theirs.From.StoreID, err
}
