// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
)

const (
	// maxOdd bounds the peers noted as having other seeds. It is room for the seeds
	// and the members of the largest cluster, which come before all others.
	maxOdd = 2 * MaxSize
	// oddFresh is how long a peer is named that is neither seed nor member, after
	// the last word from it: it may never come again, and take back what it said.
	oddFresh = time.Minute
)

// greeted notes whether a peer greets with the seeds of this node. One list that
// differs keeps a whole cluster from being founded (protocol.md section 4), and
// the nodes with the right one must say so too: nothing else tells them.
func (s *notes) greeted(from member.Address, same bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.odd, from)
	if same {
		return
	}
	for a := range s.odd {
		if len(s.odd) < maxOdd {
			break
		}
		if s.by[a] == nil {
			delete(s.odd, a)
		}
	}
	if len(s.odd) < maxOdd {
		s.odd[from] = time.Now()
	}
}

// otherSeeds lists the peers that have other seeds than this node, sorted.
func (s *notes) otherSeeds() []member.Address {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.odd, func(a member.Address, heard time.Time) bool {
		return s.by[a] == nil && time.Since(heard) > oddFresh
	})
	return slices.SortedFunc(maps.Keys(s.odd), member.Address.Compare)
}

// haveOtherSeeds says it in words; empty for nobody.
func haveOtherSeeds(peers []member.Address) string {
	var names []string
	for _, a := range peers {
		names = append(names, shown(a))
	}
	const advice = " other seeds: give every node the same list, without nodes of other clusters"
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0] + " has" + advice
	default:
		return some(names) + " have" + advice
	}
}

// listed is a list of seeds as people write it.
func listed(seeds []member.Address) string {
	var names []string
	for _, a := range seeds {
		names = append(names, a.String())
	}
	return strings.Join(names, ",")
}
