// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"slices"
	"testing"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// TestALaterRunWaitsForTheEarlierOne checks that the frames of a later run of a peer are delivered
// after those of the earlier run, for each pair of dialers (Handler: calls of Custom are
// sequential for each peer).
func TestALaterRunWaitsForTheEarlierOne(t *testing.T) {
	for _, dialers := range [][2]member.Address{
		{addrA, addrA}, {addrA, addrB}, {addrB, addrA}, {addrB, addrB},
	} {
		p := newPeer(&Mesh{handler: &losses{}, self: addrA}, addrB)
		connect := func(run uint64) *link {
			l := newLink(p, idleConn{}, Ends{Dialer: dialers[run-1], ID: run})
			l.who = member.Identity{Address: addrB, Incarnation: run}
			if refusal := p.adoptLink(l, ""); refusal != nil {
				t.Fatal(refusal)
			}
			return l
		}
		earlier := connect(1)
		earlier.started = true // its readers are still delivering frames
		later := connect(2)
		for k := range transport.Kinds {
			if !slices.Contains(later.after[k], (<-chan struct{})(earlier.read[k].ch)) {
				t.Errorf("dialed by %v, kind %v: the later run does not wait", dialers, k)
			}
		}
	}
}
