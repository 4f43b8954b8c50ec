// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
)

const (
	// maxSeedMismatches bounds the peers noted as having other seeds. The seeds and the
	// members of the largest cluster fit in, and come before all others.
	maxSeedMismatches = 2 * member.MaxMembers
	// seedMismatchTimeout is how long a peer that is neither a seed nor a member is named
	// after its last message: it may never come back with the right list.
	seedMismatchTimeout = time.Minute
)

// noteSeeds notes whether a peer greets with the seeds of this node. One list that differs
// keeps a whole cluster from being founded (protocol.md section 4). The nodes with the
// right list must name the peer too, because nothing else shows it to their operators.
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

// otherSeeds lists the peers with other seeds than this node has, sorted.
func (p *peerLog) otherSeeds() []member.Address {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.seedMismatches, func(a member.Address, heard time.Time) bool {
		return p.byAddress[a] == nil && time.Since(heard) > seedMismatchTimeout
	})
	return slices.SortedFunc(maps.Keys(p.seedMismatches), member.Address.Compare)
}

// seedMismatchText names the peers with other seeds; it is empty if there are none.
func seedMismatchText(peers []member.Address) string {
	var names []string
	for _, a := range peers {
		names = append(names, addressText(a))
	}
	const advice = " other seeds: give every node the same list, without nodes of other clusters"
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0] + " has" + advice
	default:
		return joinNames(names) + " have" + advice
	}
}

// seedList is a list of seeds as it stands in a configuration.
func seedList(seeds []member.Address) string {
	var names []string
	for _, a := range seeds {
		names = append(names, a.String())
	}
	return strings.Join(names, ",")
}
