// SPDX-License-Identifier: Apache-2.0

package mesh

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
	ReportStreamRefused             // a bulk stream of the peer is reset: its head is not one
	Whats                           // is above them all
)

// Report is something that the owner of a node may want to log. Peer may be
// what a stranger said that it is; of ReportCertificate it is where the packets
// came from, or whom the holder of another certificate claims to be.
type Report struct {
	What What
	Peer member.Address // nobody where there is none, or it did not say who it is
	Err  error          // why; nil for ReportConnected
}

const (
	// reportInterval is how long a report is not repeated.
	reportInterval = time.Minute
	// maxReported bounds the memory of what was reported, and maxStrangers the
	// part of it that is about whoever dials: strangers can make up as much as they
	// like, so what is more than that is only counted.
	maxReported  = 512
	maxStrangers = 64
)

// reporter passes reports on, and the same one not too often.
type reporter struct {
	to   func(Report)
	mu   sync.Mutex
	last map[reported]told
}

type reported struct {
	what What
	peer member.Address
	text string
}

type told struct {
	at       time.Time
	stranger bool
}

// report is for what this node finds with peers that it wants to reach.
func (r *reporter) report(rep Report) { r.pass(rep, false) }

// reportStranger is for what whoever dials this node brings about.
func (r *reporter) reportStranger(rep Report) { r.pass(rep, true) }

func (r *reporter) pass(rep Report, stranger bool) {
	if r.to == nil {
		return
	}
	if rep.Err != nil && r.repeats(rep, stranger) {
		return
	}
	r.to(rep)
}

func (r *reporter) repeats(rep Report, stranger bool) bool {
	key, now := reported{rep.What, rep.Peer, rep.Err.Error()}, time.Now()
	if rep.What == ReportCertificate {
		// One line for a host, from however many ports it tries.
		key.peer.Port, key.text = 0, ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last[key]; ok && now.Sub(last.at) < reportInterval {
		return true
	}
	maps.DeleteFunc(r.last, func(_ reported, t told) bool { return now.Sub(t.at) >= reportInterval })
	strangers := 0
	for _, t := range r.last {
		if t.stranger {
			strangers++
		}
	}
	switch {
	case stranger && strangers >= maxStrangers:
		return true
	case r.last == nil, len(r.last) >= maxReported:
		r.last = make(map[reported]told)
	}
	r.last[key] = told{now, stranger}
	return false
}
