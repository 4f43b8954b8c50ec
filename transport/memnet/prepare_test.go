// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

// prepareTest is a node that prepares connections to three others and sends nothing.
type prepareTest struct {
	*testing.T
	*Network
	alone *node
	peers []member.Identity
}

func inPrepareTest(t *testing.T, test func(p *prepareTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &prepareTest{T: t, Network: New()}
		p.alone = begin(t, p.Network, 1)
		nodes := []*node{p.alone}
		for port := 2; port < 5; port++ {
			n := begin(t, p.Network, port)
			nodes = append(nodes, n)
			p.peers = append(p.peers, n.Greet().From)
		}
		test(p)
		for _, n := range nodes {
			if err := n.Mesh.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
}

// connected returns the ports of the peers with a connection, sorted.
func (p *prepareTest) connected() (ports []uint16) {
	synctest.Wait()
	for _, s := range p.alone.Peers() {
		if s.Connected {
			ports = append(ports, s.Address.Port)
		}
	}
	slices.Sort(ports)
	return ports
}

// longestPause exceeds the pause before the first dial in a cluster of 200, and a few dials.
const longestPause = 30 * time.Second

// A node connects to the peers that it prepares even if nothing is sent, and replaces connections
// that end. It pauses first, to leave the CPU to members that are joining.
func TestPreparedPeersAreConnected(t *testing.T) {
	inPrepareTest(t, func(p *prepareTest) {
		p.alone.Prepare(p.peers, false)
		if got := p.connected(); len(got) > 0 {
			p.Errorf("connected to %v without a pause", got)
		}
		time.Sleep(longestPause)
		if got := p.connected(); len(got) != len(p.peers) {
			p.Errorf("connected to %v, want all three", got)
		}
		// A connection to an earlier run of a peer is of no use to the later run.
		before := p.alone.Stats().Dials
		later := slices.Clone(p.peers)
		later[1].Incarnation++
		p.alone.Prepare(later, false)
		time.Sleep(longestPause)
		if got := p.alone.Stats().Dials; got == before {
			p.Error("the connection to the earlier run of a peer stayed")
		}
	})
}

// If the connections are needed soon, all peers are dialed at the same time, so that a missing peer
// delays no other.
func TestPeersAreConnectedSoon(t *testing.T) {
	inPrepareTest(t, func(p *prepareTest) {
		p.Cut(p.alone.at, p.peers[0].Address)
		p.alone.Prepare(p.peers, true)
		time.Sleep(50 * time.Millisecond)
		if got := p.connected(); !slices.Equal(got, []uint16{3, 4}) {
			p.Errorf("connected to %v, want [3 4]", got)
		}
	})
}

// Peers are dialed one at a time, in order. The longer a peer does not answer, the less often it is
// dialed.
func TestPreparedPeersAreDialedInTurn(t *testing.T) {
	inPrepareTest(t, func(p *prepareTest) {
		p.Cut(p.alone.at, p.peers[0].Address)
		p.alone.Prepare(p.peers, false)
		for p.alone.Stats().Dials == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second) // the dial lasts at least 1.5 s
		if got := p.connected(); len(got) > 0 {
			p.Errorf("connected to %v while the first peer was dialed", got)
		}
		time.Sleep(3 * time.Second)
		if got := p.connected(); !slices.Equal(got, []uint16{3, 4}) {
			p.Errorf("connected to %v, want [3 4]", got)
		}
		time.Sleep(10 * time.Minute)
		before := p.alone.Stats().Dials
		time.Sleep(10 * time.Minute)
		// The peer is dialed for 2 s about once a minute; without pauses there would be 3,000 dials.
		if got := p.alone.Stats().Dials - before; got == 0 || got > 400 {
			p.Errorf("%d dials in ten minutes, want 1 to 400", got)
		}
		p.Heal(p.alone.at, p.peers[0].Address)
		time.Sleep(2 * time.Minute)
		if got := p.connected(); len(got) != len(p.peers) {
			p.Errorf("connected to %v after the heal, want all three", got)
		}
	})
}
