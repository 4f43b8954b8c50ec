// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"fmt"
	"slices"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// copiedError returns the warning that an earlier run of the store of a connection has greeted. The
// earlier run may also have ended a moment ago.
func copiedError(earlier, later transport.Conn) error {
	return fmt.Errorf("transport: an earlier run of the same store still dials or answers at %s, a "+
		"later one is connected from %s: unless the earlier one has just ended, two processes use "+
		"copies of one data directory: stop the one that does not run at the advertised address",
		earlier.Remote(), later.Remote())
}

// adoption is what follows from adopting or refusing a link. It is carried out without p.mu.
type adoption struct {
	refusal  *transport.CloseError // nil if the link is adopted
	claim    *ClaimError           // the reason for the refusal, if another store has the address
	copied   error                 // a warning that an earlier run of the store was refused
	ask      bool                  // whether to ask the holder of the address for an answer
	replaced *link                 // ends immediately
	left     []*link               // were being left before
	lostRun  *member.Identity      // an earlier run whose frames are lost
	excess   *link                 // ends because too many links are being left
}

// adoptLink is called after the exchange of greetings on a link. The link becomes the connection of
// the peer, unless another link is kept. adoptLink returns an error if it refuses a link. This node
// has then written nothing on the link, if the peer dialed it. name is the name in the greeting.
func (p *peer) adoptLink(next *link, name string) *transport.CloseError {
	a := p.decideLink(next, p.mesh.handler.StoreOf(p.addr), name)
	if next.ends.announcesEnd() {
		a.claim, a.copied = nil, nil // it dials from another port, and a later run may be connected
	}
	if a.claim != nil && (a.claim.Answers || !a.claim.Connected) {
		p.mesh.reports.reportStranger(Report{ReportClaimed, p.addr, a.claim})
	}
	if a.copied != nil {
		p.mesh.reports.reportStranger(Report{ReportCopied, p.addr, a.copied})
	}
	if a.ask {
		p.mesh.handler.Ask(p.addr, next.who.StoreID)
	}
	if a.replaced != nil {
		a.replaced.end(transport.CodeReplaced, "a later connection has replaced it", nil)
	}
	for _, l := range a.left {
		if l.who != next.who {
			l.endDead()
		}
	}
	if a.lostRun != nil {
		p.mesh.handler.Lost(*a.lostRun) // must precede all frames of the later run
	}
	if a.excess != nil {
		a.excess.end(transport.CodeTimeout, "too many connections are closing", nil)
	}
	return a.refusal
}

// decideLink decides whether a link becomes the connection of the peer. owner is the store of the
// member at the address, or zero.
func (p *peer) decideLink(next *link, owner member.StoreID, name string) (a adoption) {
	p.mu.Lock()
	defer p.mu.Unlock()
	verdict, have := Replace, p.cur
	dialed := next.ends.Dialer != p.addr
	next.proved = dialed || p.comesFromAddress(next.conn) || p.isProved(next.who.StoreID)
	a.claim, a.ask = p.refuseClaim(next, owner, name)
	if have != nil && have.who.StoreID == next.who.StoreID {
		verdict = Resolve(have.ends, next.ends, have.who.Incarnation, next.who.Incarnation)
		have.proved = have.proved || dialed
		next.proved = have.proved
	}
	if p.greeting == next {
		p.greeting = nil
	}
	if verdict == Switch || verdict == Keep {
		p.mesh.stats.duplicates.Add(1)
	}
	switch {
	case p.leaving || next.over:
		a.refusal = &transport.CloseError{Code: transport.CodeClosed, Reason: shutdownReason}
	case a.claim != nil:
		a.refusal = a.claim.refusal()
	case verdict == Refuse && next.who.Incarnation < have.who.Incarnation:
		a.copied = copiedError(next.conn, have.conn)
		a.refusal = &transport.CloseError{
			Code:   transport.CodeEarlierRun,
			Reason: fmt.Sprintf("a later run of this store is connected from %s", have.conn.Remote()),
		}
	case verdict == Refuse:
		a.refusal = &transport.CloseError{
			Code: transport.CodeDuplicate, Reason: "a later connection is in use",
		}
	case verdict == Keep && !dialed:
		a.refusal = &transport.CloseError{
			Code: transport.CodeDuplicate, Reason: "another connection is in use",
		}
	case verdict == Keep:
		p.drainLink(next)
	default:
		if verdict == Replace && have != nil && have.who == next.who && !have.staysSilent() {
			// A node dialed again because the connection was silent, but it carries frames now.
			verdict = Switch
			have.limitDrain(p.mesh.silence / redialedDrains)
		}
		a.left = slices.Clone(p.draining)
		a.lostRun = p.mapLink(next, verdict)
		if !dialed {
			p.lastID = next.ends.ID
		}
		if verdict == Replace {
			a.replaced = have
		}
	}
	a.excess = p.excessLink()
	return a
}

// mapLink makes a link the connection of the peer. Its readers wait for the readers of the links
// that it replaces. If frames to an earlier run of the peer are lost and the end of a link does not
// report this, mapLink returns that run. p.mu must be held.
func (p *peer) mapLink(next *link, verdict Verdict) (lostRun *member.Identity) {
	if earlier := p.run; earlier != next.who {
		reported := p.cur != nil && p.cur.started // the end of cur, which follows, reports the loss
		if dropped := p.clearFlows(); !reported && (dropped > 0 || p.unsettled != nil) {
			lostRun = &earlier
		}
	}
	next.follows = p.run == next.who
	p.run, p.unsettled = next.who, nil
	if host := next.conn.Remote().Host; host != "" {
		p.remote = member.Address{Host: host, Port: p.addr.Port}
	}
	earlier := slices.Clone(p.draining)
	if p.cur != nil {
		earlier = append(earlier, p.cur)
		if verdict == Switch {
			p.drainLink(p.cur)
		}
	}
	if p.greeting != nil {
		earlier = append(earlier, p.greeting)
	}
	p.pruneEnded()
	for _, l := range p.ended {
		next.readAfter(l)
	}
	for _, l := range earlier {
		// The readers of a later run always wait: calls of the handler are sequential for each peer.
		v := Resolve(l.ends, next.ends, 0, 0)
		if v == Replace || v == Switch || l != p.greeting && l.who != next.who {
			next.readAfter(l)
			l.limitDrain(drainTimeout)
		}
	}
	p.setCur(next)
	p.lastErr, p.refused = nil, false
	if p.cancelDial != nil {
		p.cancelDial()
	}
	return lostRun
}
