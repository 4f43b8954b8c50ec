// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// A claim is a connection to a peer whose store is not that of the peer's connection, or not that
// of the member at its address. Any holder of the secret can greet from any address, by mistake
// too, but only a process that listens at an address answers there. So an address belongs to the
// store of its member, then to the store that answers when this node dials the address (protocol.md
// section 8, claims).

// ClaimError means that a process greeted from the address of another one and was refused.
type ClaimError struct {
	Address member.Address
	Source  member.Address // from which the refused process dialed
	Name    string         // that the refused process has in its greeting
	Store   member.StoreID // of the refused process
	Holder  member.StoreID // the store that holds the address
	// Connected is set if the holder has a connection. Otherwise this node has dialed the address and
	// did not reach the refused process.
	Connected bool
	// Answers is set if the holder answered since the claim began. Otherwise it may be down, and a
	// process that listens at the address may take its place.
	Answers bool
	// Self is set if the address leads to this node itself, as localhost does.
	Self bool
}

// Error names the source of the refused process, the stores, and what to do.
func (e *ClaimError) Error() string {
	who := fmt.Sprintf("transport: the process at %s (name %s, store %x) claims the address %s",
		e.Source, safetext.QuotePeerText(e.Name), e.Store[:3], e.Address)
	switch {
	case e.Connected:
		return fmt.Sprintf("%s of another process (store %x), which answers: correct the address that "+
			"it advertises", who, e.Holder[:3])
	case e.Self:
		return who + ", which leads from here to this node itself: it must advertise an address that " +
			"leads to it from every node, not localhost"
	default:
		return who + ", but does not answer there: correct the address that it advertises, or the name " +
			"in DNS on this host, or open its port"
	}
}

// refusal returns the error with which the claimant's connection is closed. Its reason is for the
// log of the claimant.
func (e *ClaimError) refusal() *transport.CloseError {
	code, reason := transport.CodeUnproved,
		"the process at %s, which this process advertises, does not answer as this process: correct the "+
			"address that it advertises, or the name in DNS, or open the port"
	switch {
	case e.Answers:
		code, reason = transport.CodeAddressTaken,
			"the address %s belongs to another process, which answers: check the address that this "+
				"process advertises"
	case e.Self:
		reason = "the address %s, which this process advertises, leads the node that refuses to " +
			"itself: advertise one that leads to this process from every node, not localhost"
	case e.Connected:
		code, reason = transport.CodeAddressHeld,
			"the address %s belongs to another store: this process can take its place once that one is "+
				"silent, and if it can be dialed at the address"
	}
	return &transport.CloseError{Code: code, Reason: fmt.Sprintf(reason, e.Address)}
}

// contest is what this node knows about the holder of an address that other processes claim.
type contest struct {
	holder *link
	at     time.Time // begin of the current window
	// answered counts the windows in which the holder answered, and missed those in a row in which it
	// did not.
	answered, missed int
	// claims has the value of answered when each store first claimed the address.
	claims map[member.StoreID]int
}

const (
	// contestWindows is how many windows, each half the silence after which another connection is
	// dialed, decide whether the holder of an address answers.
	contestWindows = 2
	// maxClaimants bounds the stores that a contest remembers. No other one learns that the holder
	// answers.
	maxClaimants = 8
)

// noteClaim begins the next window if the current one, of the given length, is over. It returns
// whether a window has begun: the holder must then be asked for an answer. answers reports whether
// the holder has answered since the claimant was first refused. The process that answered before
// may be that of an earlier store of the claimant, which has died.
func (c *contest) noteClaim(
	holder *link, claimant member.StoreID, now time.Time, window time.Duration,
) (begun, answers bool) {
	switch {
	case c.holder != holder || now.Sub(c.at) > 2*contestWindows*window:
		*c = contest{holder: holder, at: now, claims: map[member.StoreID]int{}}
		begun = true
	case now.Sub(c.at) >= window:
		if c.missed++; holder.answered.Load() {
			c.answered, c.missed = c.answered+1, 0
		}
		c.at, begun = now, true
	}
	if begun {
		holder.answered.Store(false)
	}
	first, known := c.claims[claimant]
	if !known && len(c.claims) < maxClaimants {
		c.claims[claimant] = c.answered
	}
	return begun, known && c.answered-first >= contestWindows
}

// NoteAnswer records that the run that a peer greeted with has answered. Only the handler can tell
// an answer from a message that the peer sent by itself, which proves less: the peer may not
// receive anything.
func (m *Mesh) NoteAnswer(who member.Identity) {
	p, err := m.holdPeer(who.Address)
	if err != nil {
		return
	}
	defer p.release()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur != nil && p.cur.who == who {
		p.cur.answered.Store(true)
	}
}

// isSilent reports whether a link no longer works, or its peer does not answer while another
// process claims its address. p.mu must be held.
func (p *peer) isSilent(l *link) bool {
	return l.silent || p.contest.holder == l && p.contest.missed >= contestWindows
}

// mayTake reports whether a link may take the address from the link have, whose store is another
// one, or from the member at the address if have is nil. owner is the store of the member, or zero.
// p.mu must be held.
func (p *peer) mayTake(next, have *link, owner member.StoreID) bool {
	switch {
	case next.who.StoreID == owner:
		return true
	case !next.proved:
		return false
	default:
		return have == nil || p.isSilent(have) || have.who.StoreID != owner && !have.proved
	}
}

// refuseClaim returns why a link may not take the address, or nil if it may. ask reports whether
// the holder must be asked for an answer. p.mu must be held.
func (p *peer) refuseClaim(
	next *link, owner member.StoreID, name string,
) (refused *ClaimError, ask bool) {
	have := p.cur
	if have != nil && have.who.StoreID == next.who.StoreID || p.addr.IsObserver() ||
		p.mayTake(next, have, owner) {
		return nil, false
	}
	refused = &ClaimError{
		Address: p.addr, Source: next.conn.Remote(), Name: name, Store: next.who.StoreID,
		Holder: owner, Self: have == nil && p.proof.self,
	}
	if have != nil {
		refused.Holder, refused.Connected = have.who.StoreID, true
		ask, refused.Answers = p.contest.noteClaim(
			have, next.who.StoreID, time.Now(), p.mesh.silence/contestWindows)
		// Without a member at the address, the holder may be the process of an earlier store.
		refused.Answers = refused.Answers && !owner.IsZero()
		if !next.proved && time.Since(p.proof.probed) >= maxQueuedTime {
			p.startProbe()
		}
	}
	return refused, ask
}
