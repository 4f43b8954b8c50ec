// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const (
	// MaxDatagramBytes bounds the size of a datagram.
	MaxDatagramBytes = transport.MaxPacketBytes - datagramHeaderBytes

	datagramHeaderBytes = 2
	// crowdBytes is more than half of the payload of a QUIC packet. While datagrams are waiting, each
	// packet of the Mesh is padded to this size. QUIC then puts only one such packet into each QUIC
	// packet, which leaves room for system frames.
	crowdBytes = 600
	// maxOutgoing bounds the number of datagrams that wait to be sent on a connection, and
	// maxIncoming the number of packets that wait for the handler.
	maxOutgoing = 128
	maxIncoming = 128
)

// SendDatagram sends a frame of at most MaxDatagramBytes. The frame may be lost or overtake earlier
// frames, but is never duplicated. SendDatagram never blocks: if the network is slow or there is no
// connection, frames are dropped and counted. Without a connection it also dials. The error is
// ErrTooLarge or ErrClosed. The caller may reuse the frame.
func (m *Mesh) SendDatagram(to member.Address, frame []byte) error {
	if len(frame) == 0 || len(frame) > MaxDatagramBytes {
		m.stats.countDrop(DropTooLarge, 1)
		return fmt.Errorf("%w: %d bytes, want 1 to %d", ErrTooLarge, len(frame), MaxDatagramBytes)
	}
	p, err := m.holdPeer(to)
	switch {
	case errors.Is(err, ErrClosed):
		m.stats.countDrop(DropClosed, 1)
		return ErrClosed
	case err != nil:
		m.stats.countDrop(DropUnconnected, 1)
		return nil
	}
	defer p.release()
	p.sendDatagram(frame)
	return nil
}

// sendDatagram queues a datagram on the connection. Without a connection it drops the
// datagram and starts to dial.
func (p *peer) sendDatagram(frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil {
		p.mesh.stats.countDrop(DropUnconnected, 1)
		p.wanted = time.Now()
		p.wakeOrDial(transport.System)
		return
	}
	p.mesh.stats.countDrop(DropBusy, p.cur.outgoing.push(frame))
	select {
	case p.cur.urged <- struct{}{}:
	default:
	}
}

// writeDatagrams sends the waiting datagrams. Datagrams that it has already taken from the
// queue are lost if the connection ends.
func (l *link) writeDatagrams() {
	stats := &l.peer.mesh.stats
	for {
		b := l.nextPacket()
		if b.frames == 0 {
			select {
			case <-l.urged:
				continue
			case <-l.done:
				return
			}
		}
		// Count datagrams as sent before they can be counted as received.
		stats.datagramsSent.add(b.frames, b.payload)
		if err := l.conn.SendDatagram(b.bytes); err != nil {
			stats.countDrop(DropLost, b.frames)
		}
	}
}

func (l *link) nextPacket() batch {
	l.peer.mu.Lock()
	defer l.peer.mu.Unlock()
	return l.outgoing.take()
}

// readDatagrams receives packets. Another goroutine delivers the packets. If the handler is too
// slow, readDatagrams drops and counts packets.
func (l *link) readDatagrams() {
	stats := &l.peer.mesh.stats
	incoming := make(chan []byte, maxIncoming)
	l.peer.mesh.work.Go(func() { l.deliverDatagrams(incoming) })
	defer close(incoming)
	for {
		packet, err := l.conn.ReceiveDatagram()
		if err != nil {
			return // the connection has ended; other goroutines handle that
		}
		frames, bytes, err := measurePacket(packet)
		if err != nil {
			l.fail(err)
			return
		}
		stats.datagramsReceived.add(frames, bytes)
		select {
		case incoming <- packet:
		default:
			stats.countDrop(DropBusy, frames)
		}
	}
}

func (l *link) deliverDatagrams(incoming <-chan []byte) {
	for packet := range incoming {
		for frame, rest := cutPacket(packet); frame != nil; frame, rest = cutPacket(rest) {
			l.peer.mesh.handler.Datagram(l.who, frame)
		}
	}
}

// datagramQueue holds the datagrams that wait to be sent, oldest first.
type datagramQueue struct{ frames [][]byte }

// push adds a copy of a frame and returns how many of the oldest frames it dropped.
func (q *datagramQueue) push(frame []byte) (dropped int) {
	if len(q.frames) == maxOutgoing {
		q.frames, dropped = q.frames[1:], 1
	}
	q.frames = append(q.frames, append([]byte(nil), frame...))
	return dropped
}

// take removes and returns the next packet: as many frames as fit, each preceded by its
// length. If more frames are waiting, it pads the packet with zeros to crowdBytes.
func (q *datagramQueue) take() (b batch) {
	for _, frame := range q.frames {
		if len(b.bytes)+datagramHeaderBytes+len(frame) > transport.MaxPacketBytes {
			break
		}
		b.bytes = binary.BigEndian.AppendUint16(b.bytes, uint16(len(frame)))
		b.bytes = append(b.bytes, frame...)
		b.frames++
		b.payload += len(frame)
	}
	clear(q.frames[:b.frames])
	q.frames = q.frames[b.frames:]
	if len(q.frames) > 0 && len(b.bytes) < crowdBytes {
		b.bytes = append(b.bytes, make([]byte, crowdBytes-len(b.bytes))...)
	}
	return b
}

// cutPacket returns the first frame of a packet and the rest. The frame is nil if the packet
// contains no further frame. A length of zero marks the padding. measurePacket must have accepted
// the packet.
func cutPacket(packet []byte) (frame, rest []byte) {
	if len(packet) < datagramHeaderBytes {
		return nil, nil
	}
	length := int(binary.BigEndian.Uint16(packet))
	packet = packet[datagramHeaderBytes:]
	if length == 0 {
		return nil, nil
	}
	return packet[:length:length], packet[length:]
}

// measurePacket counts the frames of a packet and their bytes. It returns errGarbage if a
// frame is truncated.
func measurePacket(packet []byte) (frames, bytes int, err error) {
	for len(packet) >= datagramHeaderBytes {
		length := int(binary.BigEndian.Uint16(packet))
		packet = packet[datagramHeaderBytes:]
		switch {
		case length == 0:
			return frames, bytes, nil
		case length > len(packet):
			return 0, 0, fmt.Errorf("%w: datagram of %d bytes, but only %d arrived",
				errGarbage, length, len(packet))
		}
		packet = packet[length:]
		frames, bytes = frames+1, bytes+length
	}
	return frames, bytes, nil
}
