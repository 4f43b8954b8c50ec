// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"maps"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
)

// What tells the reports apart.
type What uint8

// The reports.
const (
	ReportConnected     What = iota // a peer is mapped to a connection
	ReportLost                      // the connection to a peer is lost
	ReportRefused                   // this node does not want the peer
	ReportRefusedByPeer             // the peer does not want this node
	ReportSeedsDiffer               // the peer has another list of seeds
	ReportUnreachable               // an attempt to dial the peer failed
	ReportFailed                    // the network is over: no connection works any more
	ReportCertificate               // somebody dialed, and the certificates did not fit
	ReportSmallBuffers              // the network works, and may lose more than it needs to
	reports
)

var reportNames = [reports]string{
	"connected", "connection lost", "peer refused", "refused by peer", "seeds differ",
	"peer not reached", "network failed", "handshake refused", "small buffers",
}

// String is a short phrase for logs.
func (w What) String() string { return nameOf(reportNames[:], w) }

// Report is something that the owner of a node may want to log. Peer may be
// what a stranger said that it is; of ReportCertificate it is where the packets
// came from.
type Report struct {
	What What
	Peer member.Address // nobody for ReportFailed and ReportSmallBuffers
	Err  error          // why; nil for ReportConnected
}

const (
	// reportInterval is how long a report about a peer of ours is not repeated,
	// and maxReported bounds the memory of what was reported.
	reportInterval = 10 * time.Second
	maxReported    = 256
	// The same for what strangers bring about. They can make up as much of it as
	// they like: what is more than this is only counted.
	strangerInterval = time.Minute
	maxStrangers     = 64
)

// reporter passes reports on, and the same one not too often.
type reporter struct {
	to       func(Report)
	interval time.Duration
	limit    int // of what is remembered
	// strict says that nothing is passed on while the memory is full; else the
	// reporter forgets everything and begins again.
	strict bool

	mu   sync.Mutex
	last map[reported]time.Time
}

type reported struct {
	what What
	peer member.Address
	text string
}

// newReporter is for reports about peers that this node wants to reach.
func newReporter(to func(Report)) *reporter {
	return &reporter{to: to, interval: reportInterval, limit: maxReported}
}

// newStrangers is for reports about whoever dials this node.
func newStrangers(to func(Report)) *reporter {
	return &reporter{to: to, interval: strangerInterval, limit: maxStrangers, strict: true}
}

func (r *reporter) report(rep Report) {
	if r.to == nil {
		return
	}
	if rep.Err != nil && r.repeats(rep) {
		return
	}
	r.to(rep)
}

func (r *reporter) repeats(rep Report) bool {
	key, now := reported{rep.What, rep.Peer, rep.Err.Error()}, time.Now()
	if rep.What == ReportCertificate {
		// One line for a host, from however many ports it tries.
		key.peer.Port, key.text = 0, ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last[key]; ok && now.Sub(last) < r.interval {
		return true
	}
	if len(r.last) >= r.limit && !r.makeRoom(now) {
		return true
	}
	if r.last == nil {
		r.last = make(map[reported]time.Time)
	}
	r.last[key] = now
	return false
}

// makeRoom forgets what may be repeated, or everything.
func (r *reporter) makeRoom(now time.Time) bool {
	if r.strict {
		maps.DeleteFunc(r.last, func(_ reported, last time.Time) bool {
			return now.Sub(last) >= r.interval
		})
		return len(r.last) < r.limit
	}
	clear(r.last)
	return true
}
