// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const (
	// If all members of a cluster prepare the same peer, they spread their first dials over
	// preparePace for each member. A handshake takes about 2 ms of CPU time at each node, so the peer
	// has most of its CPU time left for everything else.
	preparePace = 8 * time.Millisecond
	// Above fastPrepared members the spread grows with their square. Otherwise 101 members that share
	// two cores would lack the CPU time for their heartbeats.
	fastPrepared = 25
	// A peer that could not be reached is dialed again after a pause, which doubles from maxQueuedTime
	// to maxPreparePause. The pause may be long because only an election needs the connection.
	maxPreparePause = time.Minute
)

// preparation holds the peers to which connections are kept ready.
type preparation struct {
	wake chan struct{} // of capacity 1

	mu    sync.Mutex
	peers []member.Identity
	soon  bool // the connections are needed soon
}

// Prepare sets the peers to which connections are kept even if nothing is sent. The most important
// peer is first. Missing connections are dialed in the background. If soon is true, all are dialed
// immediately, otherwise one after another in the order of peers. Prepare does not block.
func (m *Mesh) Prepare(peers []member.Identity, soon bool) {
	p := &m.prepared
	p.mu.Lock()
	changed := !slices.Equal(p.peers, peers)
	p.peers, p.soon = peers, p.soon || soon
	p.mu.Unlock()
	if changed || soon {
		p.signal()
	}
}

func (p *preparation) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take returns the peers, and whether Prepare was called with soon set since the last call.
func (p *preparation) take() (peers []member.Identity, soon bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peers, soon, p.soon = p.peers, p.soon, false
	return peers, soon
}

// keepPrepared dials the prepared peers until the Mesh is closed.
func (m *Mesh) keepPrepared() {
	var peers []member.Identity
	dials := 0     // dials since the list changed; the last one was to peers[(dials-1)%len(peers)]
	armed := false // the timer runs
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		expired := false
		select {
		case <-m.ctx.Done():
			return
		case <-m.prepared.wake:
		case <-timer.C:
			expired = true
		}
		next, soon := m.prepared.take()
		changed := !slices.Equal(next, peers)
		peers = next
		missing := m.listMissing(peers)
		switch {
		case len(missing) == 0:
			timer.Stop()
			dials, armed = 0, false
		case soon:
			for _, who := range missing {
				m.dialPrepared(who)
			}
			timer.Reset(maxQueuedTime)
			armed = true
		case changed, !armed:
			timer.Reset(m.prepareDelay())
			dials, armed = 0, true
		case expired || dials > 0 && !slices.Contains(missing, peers[(dials-1)%len(peers)]):
			for !slices.Contains(missing, peers[dials%len(peers)]) {
				dials++
			}
			m.dialPrepared(peers[dials%len(peers)])
			timer.Reset(preparePause(dials / len(peers)))
			dials++
		}
	}
}

// prepareDelay returns the pause before the first dial after a change of the list. The pause is
// random, so that the members dial the peer at different times. It is long enough to let joining
// members dial first.
func (m *Mesh) prepareDelay() time.Duration {
	size := m.cfg.Size
	spread := preparePace * time.Duration(size*max(size, fastPrepared)/fastPrepared)
	return spread/2 + rand.N(spread)
}

// preparePause returns the pause after a dial, which grows with each round over the list.
func preparePause(round int) time.Duration {
	pause := min(maxQueuedTime<<min(round, maxDoublings), maxPreparePause)
	return pause*3/4 + rand.N(pause/2)
}

// listMissing returns the prepared peers without a connection.
func (m *Mesh) listMissing(peers []member.Identity) (missing []member.Identity) {
	for _, who := range peers {
		m.mu.Lock()
		p := m.peers[who.Address]
		m.mu.Unlock()
		if p == nil || !p.isConnectedTo(who) {
			missing = append(missing, who)
		}
	}
	return missing
}

// isConnectedTo reports whether there is a connection to a run of the peer or to a later run.
func (p *peer) isConnectedTo(who member.Identity) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cur != nil && p.cur.who.Incarnation >= who.Incarnation
}

// dialPrepared dials a peer for maxQueuedTime. It first ends a connection to an earlier run: that
// run has ended, but QUIC may not notice this for 30 s.
func (m *Mesh) dialPrepared(who member.Identity) {
	p, err := m.holdPeer(who.Address)
	if err != nil {
		return
	}
	defer p.release()
	p.mu.Lock()
	stale := p.cur
	p.mu.Unlock()
	if stale != nil && stale.who.Incarnation < who.Incarnation {
		stale.end(transport.CodeReplaced, "a later run of the peer is a member", nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = time.Now()
	p.dialIfNeeded()
}
