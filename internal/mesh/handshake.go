// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// endsBytes is the length of Ends.ID and Ends.Lost, which precede the greeting of a dialer.
const endsBytes = 16

// The reasons that a node sends when it shuts down, and when it ends a probe.
const (
	shutdownReason = "the node is shutting down"
	probeReason    = "a probe of the address"
)

// limitGreet closes a connection if the exchange of greetings takes too long or the Mesh is closed.
func (m *Mesh) limitGreet(conn transport.Conn) (stop func()) {
	// The peer waits for proof meanwhile, and this node for the result.
	timeout := time.AfterFunc(m.proveTimeout()+time.Second, func() {
		conn.Close(transport.CodeTimeout, "no greet arrived in time")
	})
	unhook := context.AfterFunc(m.ctx, func() { conn.Close(transport.CodeClosed, shutdownReason) })
	return func() {
		timeout.Stop()
		unhook()
	}
}

// ownGreet returns the greeting of this node on a connection, with the proof for that connection.
func (m *Mesh) ownGreet(conn transport.Conn, to member.Address, active bool) message.Message {
	greet := m.handler.Greet()
	greet.To = to
	body, _ := greet.Body.(message.Greet) // Start has checked the type
	body.Active = active
	body.StoreKey, body.Proof = m.cfg.Key(greet.From.StoreID).Sign(conn.Binding(), active)
	greet.Body = body
	return greet
}

// checkProof checks that a peer has proved on this connection that it holds the store that it
// names.
func checkProof(conn transport.Conn, theirs message.Message) error {
	their, _ := theirs.Body.(message.Greet) // CheckGreet has checked the type
	return storekey.Check(
		theirs.From.StoreID, their.StoreKey, their.Proof, conn.Binding(), their.Active)
}

// answerGreet exchanges greetings on a connection that a peer dialed. It calls pass when the
// greeting has arrived and no longer counts as pending.
func (m *Mesh) answerGreet(conn transport.Conn, pass func()) {
	defer m.limitGreet(conn)()
	reader := newFrameReader(conn.Stream(transport.System), maxGreetBytes)
	raw, err := reader.next()
	if err == nil && len(raw) < endsBytes {
		err = fmt.Errorf("%w: greet of %d bytes", errGarbage, len(raw))
	}
	var theirs message.Message
	if err == nil {
		theirs, err = m.decodeGreet(raw[endsBytes:])
	}
	if err != nil {
		m.failGreet(conn, nil, err)
		return
	}
	from := theirs.From.Address
	if err := m.checkIdentity(conn, from); err != nil {
		// The peer may not be the member at the claimed address, so no error is recorded for that one.
		conn.Close(transport.CodeRefused, safetext.PeerText(err.Error()))
		m.countCertificate(from, err)
		return
	}
	ours := m.ownGreet(conn, from, false)
	refuse := func(err error, report func(Report)) {
		err = DialerError{fmt.Errorf("%w (from %s)", err, conn.Remote().Host)}
		m.refuseConn(conn, from, err, report)
	}
	if err := CheckGreet(ours, theirs); err != nil {
		// Send this node's greeting, so that the dialer gets the same result and reports it.
		if m.writeGreet(conn, nil, ours) == nil {
			_, _ = reader.next() // returns when the peer, or limitGreet, closes the connection
		}
		report := m.reports.reportStranger
		if errors.Is(err, ErrSelf) && theirs.From == ours.From && checkProof(conn, theirs) == nil {
			report = func(Report) {} // this node has dialed itself, and reports that as the dialer
		}
		refuse(err, report)
		return
	}
	if err := checkProof(conn, theirs); err != nil {
		refuse(err, m.reports.reportStranger)
		return
	}
	ends := Ends{
		Dialer: from,
		ID:     binary.BigEndian.Uint64(raw),
		Lost:   binary.BigEndian.Uint64(raw[8:]),
	}
	if ends.ID == 0 {
		if m.writeGreet(conn, nil, ours) == nil {
			_, _ = reader.next() // returns when the peer, or limitGreet, closes the probe
		}
		conn.Close(transport.CodeDuplicate, probeReason)
		m.stats.handshakes[ResultDuplicate].Add(1)
		return
	}
	p, err := m.holdPeer(from)
	if err != nil {
		m.refuseHold(conn, err)
		return
	}
	defer p.release()
	pass() // the greetings that wait for proof have their own limit
	p.proveAddress(theirs.From.StoreID, conn)
	m.establishLink(newLink(p, conn, ends), ours, theirs, reader)
}

// refuseHold closes a connection whose peer this node cannot hold because of err.
func (m *Mesh) refuseHold(conn transport.Conn, err error) {
	code, reason := transport.CodeBusy, err.Error()
	if errors.Is(err, ErrClosed) {
		code, reason = transport.CodeClosed, shutdownReason // not a refusal
	}
	conn.Close(code, reason)
	if errors.Is(err, errTooManyObservers) {
		m.stats.handshakes[ResultFull].Add(1)
	} else {
		m.stats.handshakes[ResultRefused].Add(1)
	}
}

// greet exchanges greetings on a connection that this node dialed.
func (p *peer) greet(conn transport.Conn) {
	m := p.mesh
	defer m.limitGreet(conn)()
	l := p.claimGreeting(conn)
	if l == nil {
		conn.Close(transport.CodeDuplicate, "no longer needed")
		m.stats.handshakes[ResultDuplicate].Add(1)
		return
	}
	if err := m.checkIdentity(conn, p.addr); err != nil {
		conn.Close(transport.CodeRefused, safetext.PeerText(err.Error()))
		m.stats.countFailed(err)
		m.reports.report(Report{ReportRefused, p.addr, err})
		p.setLastErr(err, true)
		l.end(transport.CodeRefused, "", nil)
		return
	}
	ours := m.ownGreet(conn, p.addr, true)
	reader := newFrameReader(conn.Stream(transport.System), maxGreetBytes)
	theirs, err := m.exchangeGreets(conn, reader, l.ends.encodePrefix(), ours)
	if err != nil {
		m.failGreet(conn, p, err)
		l.end(transport.CodeClosed, "", nil)
		return
	}
	if err = CheckGreet(ours, theirs); err == nil {
		err = checkProof(conn, theirs)
	}
	if err != nil {
		m.refuseConn(conn, p.addr, err, m.reports.report)
		p.setLastErr(err, true)
		l.end(transport.CodeRefused, "", nil)
		return
	}
	m.establishLink(l, ours, theirs, reader)
}

// claimGreeting makes conn the only connection on which this node, as the dialer, exchanges
// greetings with the peer. It returns nil if conn is not needed.
func (p *peer) claimGreeting(conn transport.Conn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving || p.greeting != nil || p.cur != nil && !p.cur.silent || p.yieldsToProof() {
		return nil
	}
	p.greeting = newLink(p, conn, Ends{p.mesh.self, rand.Uint64() | 1, p.lastID})
	return p.greeting
}

// exchangeGreets sends the greeting of this node and reads the greeting of the peer.
func (m *Mesh) exchangeGreets(
	conn transport.Conn, r *frameReader, prefix []byte, ours message.Message,
) (theirs message.Message, err error) {
	if err := m.writeGreet(conn, prefix, ours); err != nil {
		return theirs, err
	}
	raw, err := r.next()
	if err != nil {
		return theirs, err
	}
	return m.decodeGreet(raw)
}

func (m *Mesh) decodeGreet(raw []byte) (message.Message, error) {
	greet, err := m.cfg.Decode(raw)
	if err != nil {
		err = fmt.Errorf("%w: greet: %w", errGarbage, err)
	}
	return greet, err
}

// encodePrefix returns what precedes the greeting of the dialer.
func (e Ends) encodePrefix() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, e.ID), e.Lost)
}

// writeGreet sends a greeting, the first frame of the system stream.
func (m *Mesh) writeGreet(conn transport.Conn, prefix []byte, greet message.Message) error {
	encoded, err := m.cfg.Encode(greet)
	if err != nil {
		return fmt.Errorf("transport: encode greet: %w", err)
	}
	frame := appendHeader(nil, len(prefix)+len(encoded))
	frame = append(append(frame, prefix...), encoded...)
	_, err = conn.Stream(transport.System).Write(frame)
	return err
}

// establishLink makes a link the connection of its peer and starts it. If the peer dialed,
// establishLink first writes this node's greeting.
func (m *Mesh) establishLink(l *link, ours, theirs message.Message, r *frameReader) {
	r.limit, r.link = MaxSystemBytes, l
	l.who, l.reader = theirs.From, r
	our, _ := ours.Body.(message.Greet)
	their, _ := theirs.Body.(message.Greet) // CheckGreet has checked the types
	if refusal := l.peer.adoptLink(l, their.Name); refusal != nil {
		result := ResultDuplicate
		switch refusal.Code {
		case transport.CodeUnproved, transport.CodeAddressHeld:
			result = ResultRefused
		case transport.CodeAddressTaken:
			result = ResultClaimed
		case transport.CodeEarlierRun:
			result = ResultEarlierRun
		}
		if !l.ends.announcesEnd() {
			m.stats.handshakes[result].Add(1)
		}
		l.end(refusal.Code, refusal.Reason, refusal)
		return
	}
	if !our.Active {
		if err := m.writeGreet(l.conn, nil, ours); err != nil {
			m.stats.handshakes[ResultFailed].Add(1)
			l.end(transport.CodeClosed, "cannot write the greet", err)
			return
		}
	}
	m.stats.handshakes[ResultEstablished].Add(1)
	m.reports.report(Report{Kind: ReportConnected, Peer: l.peer.addr})
	if !theirs.From.Address.IsObserver() {
		m.handler.Greeted(theirs)
	}
	l.start()
	if l.isObserved() {
		return
	}
	if !our.Active && m.handler.StoreOf(l.peer.addr) == l.who.StoreID {
		m.spawnWork(func() { l.peer.dialBack(l) })
	}
	if err := GreetWarning(our, their); err != nil {
		m.reports.report(Report{ReportSeedsDiffer, theirs.From.Address, err})
	}
}

// failGreet closes a connection on which no greeting of the peer arrived, and counts and
// reports the error. p is nil if the peer dialed, because the peer is then unknown.
func (m *Mesh) failGreet(conn transport.Conn, p *peer, err error) {
	kind := ReportUnreachable
	closed, isClosed := errors.AsType[*transport.CloseError](err)
	switch {
	case errors.Is(err, errGarbage), errors.Is(err, errEndMark):
		m.stats.countDrop(DropGarbage, 1)
		conn.Close(transport.CodeGarbage, err.Error())
		if p == nil {
			m.reports.reportStranger(Report{Kind: ReportRefused, Err: err})
		} else {
			m.reports.report(Report{ReportRefused, p.addr, err})
		}
		m.stats.handshakes[ResultRefused].Add(1)
	case isClosed && closed.Remote && closed.Code == transport.CodeDuplicate:
		m.stats.handshakes[ResultDuplicate].Add(1)
		if p != nil {
			m.stats.duplicates.Add(1)
			p = nil // another connection is kept, so nothing has failed
		}
	case isClosed && isRefusal(closed) && p == nil:
		// Before the greetings, a peer can only refuse the certificate.
		m.countCertificate(member.Address{}, err)
	case isClosed && isRefusal(closed):
		m.stats.handshakes[ResultRefusedByPeer].Add(1)
		kind = ReportRefusedByPeer
	default:
		m.stats.countFailed(err)
	}
	conn.Close(transport.CodeClosed, "no valid greet")
	if p == nil {
		return
	}
	p.setLastErr(err, kind == ReportRefusedByPeer)
	m.reports.report(Report{kind, p.addr, err})
}

// refuseConn closes the connection of a peer that this node does not accept.
func (m *Mesh) refuseConn(
	conn transport.Conn, peer member.Address, err error, report func(Report),
) {
	conn.Close(transport.CodeRefused, safetext.PeerText(err.Error()))
	m.stats.handshakes[ResultRefused].Add(1)
	report(Report{ReportRefused, peer, err})
}

// isRefusal reports whether the peer refuses this node. If so, it is useless to dial again soon.
func isRefusal(e *transport.CloseError) bool {
	switch e.Code {
	case transport.CodeRefused, transport.CodeEarlierRun, transport.CodeBusy,
		transport.CodeAddressTaken:
		return e.Remote
	}
	return false
}
