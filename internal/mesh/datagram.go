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
	// MaxDatagramBytes bounds a datagram.
	MaxDatagramBytes = transport.MaxPacketBytes - datagramHeaderBytes

	datagramHeaderBytes = 2
	// crowdBytes is more than half of what QUIC puts into its packets, so that it
	// takes one of our packets for each of its own, and there is room for system
	// frames in every one however many datagrams wait.
	crowdBytes = 600
	// maxOutgoing bounds the datagrams that wait to be sent on a connection, and
	// maxIncoming the packets that wait for the handler.
	maxOutgoing = 128
	maxIncoming = 128
)

// SendDatagram sends a frame of at most MaxDatagramBytes that may be lost, and may arrive
// before frames that were sent earlier; it arrives once at most. It never blocks: without a
// connection, which it starts to dial, or while the network is slow, frames are dropped and
// counted. The error is ErrTooLarge or ErrClosed. The caller may then use the frame again.
func (m *Mesh) SendDatagram(to member.Address, frame []byte) error {
	if len(frame) == 0 || len(frame) > MaxDatagramBytes {
		m.stats.countDrop(DropTooLarge, 1)
		return fmt.Errorf("%w: %d bytes, want 1 to %d", ErrTooLarge, len(frame), MaxDatagramBytes)
	}
	p, err := m.hold(to)
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

// sendDatagram queues a datagram on the connection that there is. Where there is
// none it is lost, and one is dialed for those that come later.
func (p *peer) sendDatagram(frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil {
		p.mesh.stats.countDrop(DropUnconnected, 1)
		p.missed = time.Now()
		p.urge(transport.System)
		return
	}
	p.mesh.stats.countDrop(DropBusy, p.cur.outgoing.push(frame))
	select {
	case p.cur.urged <- struct{}{}:
	default:
	}
}

// writeDatagrams sends what waits. What it has taken when the connection ends is
// lost, as it may be.
func (l *link) writeDatagrams() {
	stats := &l.peer.mesh.stats
	for {
		packet, frames := l.nextPacket()
		if frames == 0 {
			select {
			case <-l.urged:
				continue
			case <-l.done:
				return
			}
		}
		// Counted first, so that no datagram is received before it was sent.
		stats.datagramsSent.add(frames, payloadOf(packet))
		if err := l.conn.SendDatagram(packet); err != nil {
			stats.countDrop(DropLost, frames)
		}
	}
}

func (l *link) nextPacket() (packet []byte, frames int) {
	l.peer.mu.Lock()
	defer l.peer.mu.Unlock()
	return l.outgoing.take()
}

// readDatagrams reads what comes; a goroutine of its own hands it over, so that
// what is too much for the handler is dropped here, and counted.
func (l *link) readDatagrams() {
	stats := &l.peer.mesh.stats
	incoming := make(chan []byte, maxIncoming)
	l.peer.mesh.work.Go(func() { l.handOver(incoming) })
	defer close(incoming)
	for {
		packet, err := l.conn.ReceiveDatagram()
		if err != nil {
			return // with the connection, whose end others notice
		}
		frames, bytes, err := measurePacket(packet)
		if err != nil {
			l.broken(err)
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

func (l *link) handOver(incoming <-chan []byte) {
	for packet := range incoming {
		for frame, rest := cutPacket(packet); frame != nil; frame, rest = cutPacket(rest) {
			l.peer.mesh.handler.Datagram(l.who, frame)
		}
	}
}

// datagramQueue is the datagrams that wait to be sent, the oldest first.
type datagramQueue struct{ frames [][]byte }

// push adds a copy of a frame and returns how many of the oldest had to go.
func (q *datagramQueue) push(frame []byte) (dropped int) {
	if len(q.frames) == maxOutgoing {
		q.frames, dropped = q.frames[1:], 1
	}
	q.frames = append(q.frames, append([]byte(nil), frame...))
	return dropped
}

// take returns the next packet: as many frames as fit, each behind its length. Where
// more wait the packet is filled up with zeros to crowdBytes.
func (q *datagramQueue) take() (packet []byte, frames int) {
	for _, frame := range q.frames {
		if len(packet)+datagramHeaderBytes+len(frame) > transport.MaxPacketBytes {
			break
		}
		packet = binary.BigEndian.AppendUint16(packet, uint16(len(frame)))
		packet = append(packet, frame...)
		frames++
	}
	clear(q.frames[:frames])
	q.frames = q.frames[frames:]
	if len(q.frames) > 0 && len(packet) < crowdBytes {
		packet = append(packet, make([]byte, crowdBytes-len(packet))...)
	}
	return packet, frames
}

// cutPacket returns the first frame of a packet, nil for none, and what follows it.
// Lengths of zero fill a packet up. The packet has been measured.
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

// measurePacket counts the frames of a packet, and their bytes. It is errGarbage
// where a frame is longer than what follows its length.
func measurePacket(packet []byte) (frames, bytes int, err error) {
	for len(packet) >= datagramHeaderBytes {
		length := int(binary.BigEndian.Uint16(packet))
		packet = packet[datagramHeaderBytes:]
		switch {
		case length == 0:
			return frames, bytes, nil
		case length > len(packet):
			return 0, 0, fmt.Errorf("%w: datagram of %d bytes, %d came", errGarbage, length, len(packet))
		}
		packet = packet[length:]
		frames, bytes = frames+1, bytes+length
	}
	return frames, bytes, nil
}

func payloadOf(packet []byte) int {
	_, bytes, _ := measurePacket(packet) // it is this node's own
	return bytes
}
