// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"maps"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
)

// ReportKind is the kind of a Report.
type ReportKind uint8

// The kinds.
const (
	ReportConnected     ReportKind = iota // there is a connection to a peer
	ReportLost                            // the connection to a peer is lost
	ReportRefused                         // this node refused the peer
	ReportRefusedByPeer                   // the peer refused this node
	ReportSeedsDiffer                     // the peer has a different list of seeds
	ReportUnreachable                     // an attempt to dial the peer failed
	ReportFailed                          // the network failed, and no connection works
	ReportHandshake                       // a handshake that a peer started was refused
	ReportSmallBuffers                    // the network works, but may lose packets needlessly
	ReportStreamRefused                   // a bulk stream of the peer was reset because of its head
	ReportClaimed                         // a process claimed the address of another one
	ReportCopied                          // an earlier run of the same store was refused
	ReportOneWay                          // a peer has connected, but cannot be dialed
	ReportKinds                           // counts the kinds
)

// Report is an event that the node may want to log. Peer may be an address that an unknown dialer
// claims. For ReportHandshake, Peer is the source of the packets, or the address that a dialer with
// a refused certificate claims.
type Report struct {
	Kind ReportKind
	Peer member.Address // zero if unknown
	Err  error          // the reason; nil for ReportConnected
}

// DialerError means that this node refused a process that dialed it. That process may not be the
// one at the address from which it greeted.
type DialerError struct{ error }

// Unwrap returns the reason for the refusal.
func (e DialerError) Unwrap() error { return e.error }

const (
	// reportInterval is the minimum time before a report is repeated.
	reportInterval = time.Minute
	// maxReported bounds the number of remembered reports, and maxStrangers the number of these that
	// are about dialers. A dialer can claim any address, so reports beyond these limits are dropped.
	maxReported  = 512
	maxStrangers = 64
)

// reporter passes reports to the node, but does not repeat a report within reportInterval.
type reporter struct {
	to   func(Report)
	mu   sync.Mutex
	last map[reportKey]lastReport
}

type reportKey struct {
	kind ReportKind
	peer member.Address
	text string
}

type lastReport struct {
	at       time.Time
	stranger bool
}

// report reports an event concerning a peer that this node dials.
func (r *reporter) report(rep Report) { r.passReport(rep, false) }

// reportStranger reports an event that any dialer can cause.
func (r *reporter) reportStranger(rep Report) { r.passReport(rep, true) }

func (r *reporter) passReport(rep Report, stranger bool) {
	if r.to != nil && !rep.Peer.IsObserver() && (rep.Err == nil || r.isNew(rep, stranger)) {
		r.to(rep)
	}
}

// isNew remembers a report. It returns false if the report must be dropped.
func (r *reporter) isNew(rep Report, stranger bool) bool {
	key, now := reportKey{rep.Kind, rep.Peer, rep.Err.Error()}, time.Now()
	switch rep.Kind {
	case ReportHandshake:
		key.peer.Port, key.text = 0, "" // report a host once, regardless of the port
	case ReportClaimed, ReportCopied:
		key.text = "" // report an address once, regardless of the process that claims it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last[key]; ok && now.Sub(last.at) < reportInterval {
		return false
	}
	strangers := 0
	maps.DeleteFunc(r.last, func(_ reportKey, l lastReport) bool {
		if now.Sub(l.at) >= reportInterval {
			return true
		}
		if l.stranger {
			strangers++
		}
		return false
	})
	switch {
	case stranger && strangers >= maxStrangers:
		return false
	case r.last == nil, len(r.last) >= maxReported:
		r.last = make(map[reportKey]lastReport)
	}
	r.last[key] = lastReport{now, stranger}
	return true
}
