// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"sync/atomic"

	"github.com/athena-go/athena/transport"
)

// Result is the outcome of a handshake, including the exchange of greetings.
type Result uint8

// The results.
const (
	ResultEstablished   Result = iota // the connection is in use
	ResultRefused                     // this node refused the peer
	ResultRefusedByPeer               // the peer refused this node
	ResultDuplicate                   // the two nodes keep another connection
	ResultFailed                      // the network failed or timed out
	ResultCertificate                 // one of the nodes refused the other's certificate
	ResultFull                        // this node has too many observers
	ResultClaimed                     // the peer claimed the address of a process that answers
	ResultEarlierRun                  // a later run of the peer's store is connected
	Results                           // counts the results
)

var resultNames = [Results]string{
	"established", "refused", "refused by peer", "duplicate", "failed", "certificate refused",
	"too many observers", "address claimed", "earlier run",
}

// String returns the name of the result in metrics.
func (r Result) String() string { return resultNames[r] }

// Drop is the reason why a frame was not sent or not delivered.
type Drop uint8

// The drops.
const (
	DropOldest      Drop = iota // too many system frames waited for a peer
	DropStale                   // a system frame waited too long for a connection
	DropTooLarge                // the frame was empty or exceeded the limit of its kind
	DropNoPeer                  // the frame was addressed to this node, or there were too many peers
	DropLost                    // the connection ended before the frame was written
	DropClosed                  // the transport was closed
	DropGarbage                 // the bytes were not a frame; the connection or bulk stream was closed
	DropUnconnected             // a datagram to a peer without a connection
	DropBusy                    // the network or the handler was too slow for the datagrams
	DropStalled                 // the rest of a frame or stream head did not arrive in time
	Drops                       // counts the drops
)

var dropNames = [Drops]string{
	"oldest", "stale", "too large", "no peer", "lost", "closed", "garbage",
	"unconnected", "busy", "stalled",
}

// String returns the name of the reason in metrics.
func (d Drop) String() string { return dropNames[d] }

type trafficCounter struct{ messages, bytes atomic.Uint64 }

func (c *trafficCounter) add(messages, bytes int) {
	c.messages.Add(uint64(messages))
	c.bytes.Add(uint64(bytes))
}

func (c *trafficCounter) read() transport.Traffic {
	return transport.Traffic{Messages: c.messages.Load(), Bytes: c.bytes.Load()}
}

// counters holds the counters of transport.Stats.
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

// countFailed counts a handshake that failed before the exchange of greetings.
func (c *counters) countFailed(err error) {
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
		s.Handshakes[resultNames[i]] = c.handshakes[i].Load()
	}
	for i := range c.dropped {
		s.Dropped[dropNames[i]] = c.dropped[i].Load()
	}
	return s
}
