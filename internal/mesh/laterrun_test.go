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

// TestAnnouncementOfAnEarlierRun checks that an announcement is no warning of a copied store if a
// later run has connected before it arrives.
func TestAnnouncementOfAnEarlierRun(t *testing.T) {
	for _, announces := range []bool{false, true} {
		reports := 0
		m := &Mesh{handler: &losses{}, self: addrA, reports: reporter{to: func(Report) { reports++ }}}
		p := newPeer(m, addrB)
		connect := func(run uint64, ends Ends) *transport.CloseError {
			l := newLink(p, idleConn{}, ends)
			l.who = member.Identity{Address: addrB, Incarnation: run}
			return p.adoptLink(l, "")
		}
		if refusal := connect(2, Ends{Dialer: addrB, ID: 5}); refusal != nil {
			t.Fatal(refusal)
		}
		ends, want := Ends{Dialer: addrB, ID: 7}, 1
		if announces {
			ends.Lost, want = ends.ID, 0
		}
		if got := connect(1, ends); got == nil || got.Code != transport.CodeEarlierRun {
			t.Errorf("announces %v: got %v, want the refusal of an earlier run", announces, got)
		}
		if reports != want {
			t.Errorf("announces %v: got %d reports, want %d", announces, reports, want)
		}
	}
}
