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
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// endsBytes is what stands before the greet of a dialer.
const endsBytes = 16

// goes is the reason of a node that is being closed.
const goes = "the node goes"

// guard closes a connection when its greets take too long or the Mesh ends.
func (m *Mesh) guard(conn transport.Conn) (stop func()) {
	timeout := time.AfterFunc(greetTimeout, func() {
		conn.Close(transport.CodeTimeout, "no greet in time")
	})
	unhook := context.AfterFunc(m.ctx, func() { conn.Close(transport.CodeClosed, goes) })
	return func() {
		timeout.Stop()
		unhook()
	}
}

// ours is this node's greet to a peer.
func (m *Mesh) ours(to member.Address, active bool) message.Message {
	greet := m.handler.Greet()
	greet.To = to
	body, _ := greet.Body.(message.Greet) // Start has checked it
	body.Active = active
	greet.Body = body
	return greet
}

// welcome exchanges greets on a connection that a peer dialed.
func (m *Mesh) welcome(conn transport.Conn) {
	stop := m.guard(conn)
	defer stop()
	reader := newFrameReader(conn.Stream(transport.System), maxGreetBytes)
	raw, err := reader.next()
	if err == nil && len(raw) < endsBytes {
		err = fmt.Errorf("%w: greet of %d bytes", errGarbage, len(raw))
	}
	if err != nil {
		m.unanswered(conn, member.Address{}, err)
		return
	}
	theirs, err := m.cfg.Decode(raw[endsBytes:])
	if err != nil {
		m.unanswered(conn, member.Address{}, fmt.Errorf("%w: greet: %w", errGarbage, err))
		return
	}
	from := theirs.From.Address
	if err := m.identify(conn, from); err != nil {
		// It says nothing of the member that it claims to be.
		conn.Close(transport.CodeRefused, safetext.PeerText(err.Error()))
		m.countRefused(from, err)
		return
	}
	ours := m.ours(from, false)
	if err := CheckGreet(ours, theirs); err != nil {
		m.disagree(conn, reader, ours, err)
		return
	}
	if err := m.handler.Admit(theirs); err != nil {
		m.turnAway(conn, from, err, m.told.reportStranger)
		return
	}
	p, err := m.hold(from)
	switch {
	case errors.Is(err, ErrClosed):
		// No refusal: this node leaves in order, and what is dialed next finds nobody.
		conn.Close(transport.CodeClosed, goes)
		m.stats.handshakes[ResultRefused].Add(1)
		return
	case err != nil:
		conn.Close(transport.CodeBusy, err.Error())
		m.stats.handshakes[ResultRefused].Add(1)
		return
	}
	defer p.release()
	ends := Ends{
		Dialer: from,
		ID:     binary.BigEndian.Uint64(raw),
		Lost:   binary.BigEndian.Uint64(raw[8:]),
	}
	l := newLink(p, conn, ends)
	if !m.establish(l, theirs, reader, func() error { return m.write(conn, nil, ours) }) {
		return
	}
	m.warn(ours, theirs)
}

// greet exchanges greets on a connection that this node dialed.
func (p *peer) greet(conn transport.Conn) {
	m := p.mesh
	stop := m.guard(conn)
	defer stop()
	l := p.claim(conn)
	if l == nil {
		conn.Close(transport.CodeDuplicate, "not needed any more")
		m.stats.handshakes[ResultDuplicate].Add(1)
		return
	}
	if err := m.identify(conn, p.addr); err != nil {
		conn.Close(transport.CodeRefused, safetext.PeerText(err.Error()))
		m.stats.failed(err)
		m.told.report(Report{ReportRefused, p.addr, err})
		p.remember(err, true)
		l.end(transport.CodeRefused, "", nil)
		return
	}
	ours := m.ours(p.addr, true)
	prefix := binary.BigEndian.AppendUint64(nil, l.ends.ID)
	prefix = binary.BigEndian.AppendUint64(prefix, l.ends.Lost)
	reader := newFrameReader(conn.Stream(transport.System), maxGreetBytes)
	theirs, err := m.exchange(conn, reader, prefix, ours)
	if err == nil {
		if err = CheckGreet(ours, theirs); err == nil {
			err = m.handler.Admit(theirs)
		}
		if err != nil {
			m.turnAway(conn, p.addr, err, m.told.report)
			p.remember(err, true)
			l.end(transport.CodeRefused, "", nil)
			return
		}
	}
	if err != nil {
		m.unanswered(conn, p.addr, err)
		p.unwelcome(err)
		l.end(transport.CodeClosed, "", nil)
		return
	}
	if m.establish(l, theirs, reader, nil) {
		m.warn(ours, theirs)
	}
}

// claim makes conn the connection on which this node greets, unless there is
// one already or another connection came first.
func (p *peer) claim(conn transport.Conn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving || p.greeting != nil || p.cur != nil && !p.cur.silent {
		return nil
	}
	ends := Ends{Dialer: p.mesh.self, ID: rand.Uint64() | 1, Lost: p.lastID}
	p.greeting = newLink(p, conn, ends)
	return p.greeting
}

// exchange sends the active greet and reads the passive one.
func (m *Mesh) exchange(conn transport.Conn, r *frameReader, prefix []byte, ours message.Message) (
	theirs message.Message, err error,
) {
	if err := m.write(conn, prefix, ours); err != nil {
		return theirs, err
	}
	raw, err := r.next()
	if err != nil {
		return theirs, err
	}
	if theirs, err = m.cfg.Decode(raw); err != nil {
		return theirs, fmt.Errorf("%w: greet: %w", errGarbage, err)
	}
	return theirs, nil
}

// write sends a greet, which is the first frame of the system stream.
func (m *Mesh) write(conn transport.Conn, prefix []byte, greet message.Message) error {
	encoded, err := m.cfg.Encode(greet)
	if err != nil {
		return fmt.Errorf("transport: encode greet: %w", err)
	}
	frame := appendHeader(nil, len(prefix)+len(encoded))
	frame = append(append(frame, prefix...), encoded...)
	_, err = conn.Stream(transport.System).Write(frame)
	return err
}

// establish maps the peer to a link and starts it; answer, if any, writes the
// greet that comes before everything else.
func (m *Mesh) establish(
	l *link, theirs message.Message, r *frameReader, answer func() error,
) bool {
	r.limit, r.link = MaxSystemBytes, l
	l.who, l.reader = theirs.From, r
	if refusal := l.peer.adopt(l); refusal != nil {
		m.stats.handshakes[ResultDuplicate].Add(1)
		l.end(refusal.Code, refusal.Reason, refusal)
		return false
	}
	if answer != nil {
		if err := answer(); err != nil {
			m.stats.handshakes[ResultFailed].Add(1)
			l.end(transport.CodeClosed, "greet not written", err)
			return false
		}
	}
	m.stats.handshakes[ResultEstablished].Add(1)
	m.told.report(Report{What: ReportConnected, Peer: l.peer.addr})
	l.start()
	return true
}

// unanswered counts a connection on which the peer's greet did not come. peer is
// nobody where it dialed.
func (m *Mesh) unanswered(conn transport.Conn, peer member.Address, err error) {
	closed, isClosed := errors.AsType[*transport.CloseError](err)
	switch {
	case errors.Is(err, errGarbage), errors.Is(err, errEndMark):
		m.stats.countDrop(DropGarbage, 1)
		conn.Close(transport.CodeGarbage, err.Error())
		if peer.IsZero() {
			m.told.reportStranger(Report{ReportRefused, peer, err})
		} else {
			m.told.report(Report{ReportRefused, peer, err})
		}
		m.stats.handshakes[ResultRefused].Add(1)
	case isClosed && closed.Remote && closed.Code == transport.CodeDuplicate:
		m.stats.handshakes[ResultDuplicate].Add(1)
	case isClosed && isRefusal(closed) && peer.IsZero():
		// It dialed, and before a word was said there was only the certificate.
		m.countRefused(peer, err)
	case isClosed && isRefusal(closed):
		m.stats.handshakes[ResultRefusedByPeer].Add(1)
	default:
		m.stats.failed(err)
	}
	conn.Close(transport.CodeClosed, "no greet")
}

// unwelcome remembers why a greet was not answered.
func (p *peer) unwelcome(err error) {
	closed, ok := errors.AsType[*transport.CloseError](err)
	switch {
	case ok && isRefusal(closed):
		p.remember(err, true)
		p.mesh.told.report(Report{ReportRefusedByPeer, p.addr, err})
	case ok && closed.Remote && closed.Code == transport.CodeDuplicate:
		p.mesh.stats.duplicates.Add(1)
	default:
		p.remember(err, false)
		p.mesh.told.report(Report{ReportUnreachable, p.addr, err})
	}
}

// disagree answers a greet that cannot be accepted with this node's own, so
// that the dialer comes to the same verdict and can say why, and waits for it to
// close the connection.
func (m *Mesh) disagree(conn transport.Conn, r *frameReader, ours message.Message, err error) {
	if m.write(conn, nil, ours) == nil {
		_, _ = r.next() // returns when the peer, or the guard, closes the connection
	}
	m.turnAway(conn, ours.To, err, m.told.reportStranger)
}

// turnAway closes the connection of a peer that is not wanted.
func (m *Mesh) turnAway(conn transport.Conn, peer member.Address, err error, tell func(Report)) {
	conn.Close(transport.CodeRefused, safetext.PeerText(err.Error()))
	m.stats.handshakes[ResultRefused].Add(1)
	tell(Report{ReportRefused, peer, err})
}

// warn reports what is odd about a peer that is accepted.
func (m *Mesh) warn(ours, theirs message.Message) {
	our, _ := ours.Body.(message.Greet)
	their, _ := theirs.Body.(message.Greet) // CheckGreet has checked both
	if err := GreetWarning(our, their); err != nil {
		m.told.report(Report{ReportSeedsDiffer, theirs.From.Address, err})
	}
}

// isRefusal reports whether the peer does not want to talk to this node, so that dialing
// again soon is in vain.
func isRefusal(e *transport.CloseError) bool {
	return e.Remote && (e.Code == transport.CodeRefused || e.Code == transport.CodeEarlierRun ||
		e.Code == transport.CodeBusy)
}
