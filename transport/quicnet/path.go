// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/athena-go/athena/transport"
)

// A connection starts with packets of packetBytes, and quic-go then finds the largest size that its
// path carries. If the path later carries less, quic-go does not notice. It fills every packet up
// to the old size, and then sends no other packets. Heartbeats are lost together with the events in
// the same packets. So while large frames are written, the network sends two probes in each round,
// outside of QUIC: a small one, and one that is as large as the packets. If the peer answers only
// the small probe in probeRounds consecutive rounds, the connection is closed, and the next
// connection starts with packets of packetBytes again.

const (
	// roundInterval is the time between two rounds while the path carries large packets.
	roundInterval = 100 * time.Millisecond
	// roundPause is how long a round waits for answers, unless twice the round-trip time is
	// longer. If the answer to the small probe arrives first, although that probe was sent
	// last, the round waits only for overtakenPause.
	roundPause     = 30 * time.Millisecond
	overtakenPause = 10 * time.Millisecond
	// probeRounds is high enough for a path that loses a tenth of all packets. On such a path, all
	// large probes but no small probes of that many consecutive rounds are lost about once in several
	// hours.
	probeRounds = 5
	// largeWrite is the shortest write for which the path is probed. A shorter one fits into a packet
	// of packetBytes together with a heartbeat.
	largeWrite = packetBytes - 200
	// estimateBytes is what quic-go subtracts from the size of its packets when it
	// estimates how large a datagram may be.
	estimateBytes = 37
)

// These are the first bytes of a probe and of an answer. No QUIC packet starts with them.
const (
	probeRequest byte = 1
	probeAnswer  byte = 2
)

// A probe consists of its first byte, the ID of the path, and a byte that is 1 in the large probe.
// The rest is padding. The answer has the same form, without padding.
const probeBytes = 1 + 8 + 1

// path checks whether the path of a connection still carries its packets.
type path struct {
	id   uint64 // random, so that only the peer can answer
	net  *network
	quic *quic.Conn
	fail func(size int)

	wrote   atomic.Bool  // large frames were written since the last round
	writing atomic.Int32 // writes of large frames that have not returned

	mu           sync.Mutex
	timer        *time.Timer // nil before the first large write
	active       bool        // timer is set
	small, large bool        // the probe was answered in this round
	answered     bool        // the peer has answered a probe before
	missed       int         // consecutive rounds in which only the small probe was answered
}

// newPath returns the path of a connection, which it removes when the connection ends.
func (n *network) newPath(q *quic.Conn, fail func(size int)) *path {
	p := &path{id: rand.Uint64(), net: n, quic: q, fail: fail}
	n.paths.Store(p.id, p)
	context.AfterFunc(q.Context(), func() { n.paths.Delete(p.id) })
	return p
}

// beginWrite is called before a write to a stream, and endWrite afterwards.
func (p *path) beginWrite(bytes int) {
	if bytes >= largeWrite {
		p.writing.Add(1)
		p.noteWrite()
	}
}

func (p *path) endWrite(bytes int) {
	if bytes >= largeWrite {
		p.noteWrite()
		p.writing.Add(-1)
	}
}

// noteWrite starts the rounds unless they are in progress. The rounds are always in progress while
// wrote is true.
func (p *path) noteWrite() {
	if p.wrote.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrote.Store(true)
	switch {
	case p.active:
	case p.timer == nil:
		p.timer = time.AfterFunc(roundPause, p.nextRound)
	default:
		p.timer.Reset(roundPause)
	}
	p.active = true
}

// nextRound begins another round if it is needed, or closes the connection.
func (p *path) nextRound() {
	if size := p.packetSize(); !p.tryRound(size) && p.quic.Context().Err() == nil {
		p.fail(size)
	}
}

// tryRound evaluates the answers of the last round and begins another one if it is needed. It
// returns false if the path no longer carries packets of this size.
func (p *path) tryRound(size int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.large:
		p.missed = 0
	case p.small:
		p.missed++
	}
	if p.missed == probeRounds || p.quic.Context().Err() != nil {
		return false
	}
	unsettled := p.answered && !p.large
	wrote := p.wrote.Swap(false) || p.writing.Load() > 0
	p.small, p.large = false, false
	p.active = size > packetBytes && (wrote || unsettled)
	if !p.active {
		return true
	}
	pause := roundInterval
	if unsettled {
		pause = max(roundPause, 2*p.quic.ConnectionStats().SmoothedRTT)
	}
	p.timer.Reset(pause)
	to := p.quic.RemoteAddr()
	err := p.net.sendProbe(to, probeRequest, p.id, true, size)
	_ = p.net.sendProbe(to, probeRequest, p.id, false, probeBytes) // an error counts as a lost probe
	return !errors.Is(err, syscall.EMSGSIZE)
}

// packetSize returns the size of the packets of the connection. quic-go reveals it only in the
// error for a datagram that is too large.
func (p *path) packetSize() int {
	var large [2 * packetBytes]byte
	tooLarge, ok := errors.AsType[*quic.DatagramTooLargeError](p.quic.SendDatagram(large[:]))
	if !ok {
		return packetBytes
	}
	return int(tooLarge.MaxDatagramPayloadSize) + estimateBytes
}

// onAnswer records the answer to a probe.
func (p *path) onAnswer(large bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = true
	if large {
		p.large = true
	} else if p.small = true; p.active && !p.large {
		p.timer.Reset(overtakenPause)
	}
}

// sendProbe sends a probe or an answer.
func (n *network) sendProbe(to net.Addr, kind byte, id uint64, large bool, size int) error {
	b := make([]byte, size)
	b[0] = kind
	binary.BigEndian.PutUint64(b[1:], id)
	if large {
		b[probeBytes-1] = 1
	}
	_, err := n.quic.WriteTo(b, to)
	return err
}

// readProbes answers probes, and passes answers to their paths, until the network is closed. An
// answer is never longer than its probe, and other packets are not answered.
func (n *network) readProbes() {
	b := make([]byte, probeBytes)
	for {
		size, from, err := n.quic.ReadNonQUICPacket(context.Background(), b)
		if err != nil {
			return
		}
		if size < probeBytes {
			continue
		}
		id, large := binary.BigEndian.Uint64(b[1:]), b[probeBytes-1] == 1
		switch b[0] {
		case probeRequest:
			_ = n.sendProbe(from, probeAnswer, id, large, probeBytes) // an error counts as a lost answer
		case probeAnswer:
			if p, ok := n.paths.Load(id); ok {
				p.(*path).onAnswer(large)
			}
		}
	}
}

// failPath closes the connection. The peer receives the reason.
func (c *conn) failPath(size int) {
	c.Close(transport.CodeTimeout,
		fmt.Sprintf("the path no longer carries packets of %d bytes", size))
}
