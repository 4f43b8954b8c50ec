// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
)

const (
	// maxSeedMismatches bounds how many peers with other seeds are recorded. This is enough for the
	// seeds and members of the largest cluster, which replace other peers.
	maxSeedMismatches = 2 * member.MaxMembers
	// A peer that is neither a seed nor a member is reported until seedMismatchTimeout after its last
	// message. Such a peer may never return with the right list.
	seedMismatchTimeout = time.Minute
)

// noteSeeds records whether a peer has the same list of seeds as this node. A single wrong list can
// prevent the founding of a cluster (protocol.md section 4), so the nodes with the right list
// report the peer too.
func (p *peerLog) noteSeeds(from member.Address, same bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seedMismatches, from)
	if same {
		return
	}
	for a := range p.seedMismatches {
		if len(p.seedMismatches) < maxSeedMismatches {
			break
		}
		if p.byAddress[a] == nil {
			delete(p.seedMismatches, a)
		}
	}
	if len(p.seedMismatches) < maxSeedMismatches {
		p.seedMismatches[from] = time.Now()
	}
}

// otherSeeds returns the peers whose list of seeds differs from that of this node, sorted.
func (p *peerLog) otherSeeds() []member.Address {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.seedMismatches, func(a member.Address, heard time.Time) bool {
		return p.byAddress[a] == nil && time.Since(heard) > seedMismatchTimeout
	})
	return slices.SortedFunc(maps.Keys(p.seedMismatches), member.Address.Compare)
}

// seedMismatchText names the peers with other seeds. It returns "" if there are none.
func seedMismatchText(peers []member.Address) string {
	var names []string
	for _, a := range peers {
		names = append(names, addressText(a))
	}
	const advice = " a different list of seeds: give every node the same list, " +
		"without nodes of other clusters"
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0] + " has" + advice
	default:
		return joinNames(names) + " have" + advice
	}
}

// seedList formats a list of seeds as in a configuration.
func seedList(seeds []member.Address) string {
	var names []string
	for _, a := range seeds {
		names = append(names, a.String())
	}
	return strings.Join(names, ",")
}
