// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

const (
	// faultTimeout is how long a fault is reported after it was last seen. The transport repeats the
	// reports of a fault that lasts every minute.
	faultTimeout = 2 * time.Minute
	// maxFaults bounds the faults: any process that can dial this node can cause some.
	maxFaults = 16
)

// PeerFault is a fault of another node that this node sees and the other may not: it is refused,
// or it cannot be dialed although it is connected.
type PeerFault struct {
	Address member.Address
	Why     string
}

// faultLog contains the last fault of each address.
type faultLog struct {
	mu   sync.Mutex
	last map[member.Address]datedFault
}

type datedFault struct {
	why string
	at  time.Time
}

// noteReport records the fault in a report of the transport. It returns false if the fault is known
// already.
func (l *faultLog) noteReport(r mesh.Report) (isNew bool) {
	switch r.Kind {
	case mesh.ReportRefused, mesh.ReportClaimed, mesh.ReportCopied, mesh.ReportOneWay:
	default:
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, why := time.Now(), faultText(r.Err)
	maps.DeleteFunc(l.last, func(_ member.Address, f datedFault) bool {
		return now.Sub(f.at) >= faultTimeout
	})
	if l.last == nil {
		l.last = map[member.Address]datedFault{}
	}
	known, old := l.last[r.Peer]
	if !old && len(l.last) >= maxFaults || r.Peer.IsZero() {
		return true
	}
	l.last[r.Peer] = datedFault{safetext.OneLine(why, maxErrorBytes), now}
	return !old || known.why != l.last[r.Peer].why
}

// clearFault forgets the fault of a peer, whose greeting was admitted.
func (l *faultLog) clearFault(peer member.Address) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, peer)
}

// explainFault returns the present fault of a peer, or "".
func (l *faultLog) explainFault(peer member.Address) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.last[peer]; time.Since(f.at) < faultTimeout {
		return f.why
	}
	return ""
}

// listFaults returns the present faults, sorted by address.
func (l *faultLog) listFaults() (list []PeerFault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range slices.SortedFunc(maps.Keys(l.last), member.Address.Compare) {
		if f := l.last[a]; time.Since(f.at) < faultTimeout {
			list = append(list, PeerFault{a, f.why})
		}
	}
	return list
}
