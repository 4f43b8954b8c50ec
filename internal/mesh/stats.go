// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"sync/atomic"

	"github.com/athena-go/athena/transport"
)

// Result is how a handshake ended: that of the network, or the exchange of greets
// behind it.
type Result uint8

// The results.
const (
	ResultEstablished   Result = iota // the connection is in use, or was
	ResultRefused                     // this node did not want the peer
	ResultRefusedByPeer               // the peer did not want this node
	ResultDuplicate                   // another connection of the pair stays
	ResultFailed                      // the network failed, or it took too long
	ResultCertificate                 // one of the two did not accept the other's certificate
	Results                           // counts the results
)

var resultNames = [Results]string{
	"established", "refused", "refused by peer", "duplicate", "failed", "certificate refused",
}

// String is the name of the result as metrics write it.
func (r Result) String() string { return resultNames[r] }

// Drop is why a frame was not sent or not delivered.
type Drop uint8

// The drops.
const (
	DropOldest      Drop = iota // too many system frames waited for a peer
	DropStale                   // a system frame waited too long for a connection
	DropTooLarge                // empty or above the limit of its kind
	DropNoPeer                  // for this node itself, or for one peer too many
	DropLost                    // taken, but lost with the connection before it was written
	DropClosed                  // the transport was closed
	DropGarbage                 // no frame; the connection, or its bulk stream, was closed
	DropUnconnected             // a datagram for a peer without a connection
	DropBusy                    // a datagram too many, for the network or for the handler here
	DropStalled                 // a frame, or the head of a stream, whose rest did not come in time
	Drops                       // counts the drops
)

var dropNames = [Drops]string{
	"oldest", "stale", "too large", "no peer", "lost", "closed", "garbage",
	"unconnected", "busy", "stalled",
}

// String is the name of the drop as metrics write it.
func (d Drop) String() string { return dropNames[d] }

type trafficCounter struct{ messages, bytes atomic.Uint64 }

func (c *trafficCounter) add(messages, bytes int) {
	c.messages.Add(uint64(messages))
	c.bytes.Add(uint64(bytes))
}

func (c *trafficCounter) read() transport.Traffic {
	return transport.Traffic{Messages: c.messages.Load(), Bytes: c.bytes.Load()}
}

// counters are the Stats as they are counted.
type counters struct {
	connections    atomic.Int64
	sent, received [transport.Kinds]trafficCounter
	handshakes     [Results]atomic.Uint64
	duplicates     atomic.Uint64
	dials, redials atomic.Uint64
	dropped        [Drops]atomic.Uint64

	streamsOpened, streamsAccepted   atomic.Uint64
	datagramsSent, datagramsReceived trafficCounter
}

// failed counts a handshake that ended with an error before the greets were
// exchanged.
func (c *counters) failed(err error) {
	result := ResultFailed
	if errors.Is(err, transport.ErrCertificate) {
		result = ResultCertificate
	}
	c.handshakes[result].Add(1)
}

func (c *counters) countDrop(why Drop, frames int) { c.dropped[why].Add(uint64(frames)) }

func (c *counters) read() transport.Stats {
	s := transport.Stats{
		Connections: int(c.connections.Load()),
		Duplicates:  c.duplicates.Load(),
		Dials:       c.dials.Load(),
		Redials:     c.redials.Load(),

		StreamsOpened:     c.streamsOpened.Load(),
		StreamsAccepted:   c.streamsAccepted.Load(),
		DatagramsSent:     c.datagramsSent.read(),
		DatagramsReceived: c.datagramsReceived.read(),

		Handshakes: make(map[string]uint64, Results),
		Dropped:    make(map[string]uint64, Drops),
	}
	for k := range transport.Kinds {
		s.Sent[k], s.Received[k] = c.sent[k].read(), c.received[k].read()
	}
	for i := range c.handshakes {
		s.Handshakes[Result(i).String()] = c.handshakes[i].Load()
	}
	for i := range c.dropped {
		s.Dropped[Drop(i).String()] = c.dropped[i].Load()
	}
	return s
}
