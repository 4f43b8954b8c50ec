// SPDX-License-Identifier: Apache-2.0

package transport

import (
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
	reports
)

var reportNames = [reports]string{
	"connected", "connection lost", "peer refused", "refused by peer", "seeds differ",
	"peer not reached", "network failed",
}

// String is a short phrase for logs.
func (w What) String() string { return nameOf(reportNames[:], w) }

// Report is something that the owner of a node may want to log. Peer may be
// what a stranger said that it is.
type Report struct {
	What What
	Peer member.Address // nobody for ReportFailed
	Err  error          // why; nil for ReportConnected
}

const (
	// reportInterval is how long a report is not repeated.
	reportInterval = 10 * time.Second
	// maxReported bounds the memory of what was reported.
	maxReported = 256
)

// reporter passes reports on, and the same one not too often.
type reporter struct {
	to   func(Report)
	mu   sync.Mutex
	last map[reported]time.Time
}

type reported struct {
	what What
	peer member.Address
	text string
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last[key]; ok && now.Sub(last) < reportInterval {
		return true
	}
	if r.last == nil || len(r.last) >= maxReported {
		r.last = make(map[reported]time.Time)
	}
	r.last[key] = now
	return false
}
