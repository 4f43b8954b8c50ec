// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/member"
)

// TestPeerFaults checks that the refused nodes and those that cannot be dialed are reported until
// they are admitted or no longer seen, that the fault of one that cannot be dialed is logged once,
// and that other processes cannot add many.
func TestPeerFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := logged(zerolog.WarnLevel, func(o *Reporter) {
			want := func(faults ...PeerFault) {
				t.Helper()
				if diff := cmp.Diff(faults, o.faults.listFaults()); diff != "" {
					t.Errorf("faults: -want +got:\n%s", diff)
				}
			}
			peer := at(2, 0).Address
			oneWay := mesh.Report{Kind: mesh.ReportOneWay, Peer: peer, Err: errBoom}
			o.ObserveConnection(mesh.Report{Kind: mesh.ReportUnreachable, Peer: peer, Err: errBoom})
			want()
			missing := func(why string) {
				t.Helper()
				o.cfg.Seeds = []member.Address{peer}
				led := State{Leader: Leader{Address: at(1, 0).Address, Version: 1}}
				got := o.listMissing(led, map[member.Address]peerStatus{peer: {text: "no answer"}})
				if diff := cmp.Diff([]MissingSeed{{peer, why}}, got); diff != "" {
					t.Errorf("missing seeds: -want +got:\n%s", diff)
				}
			}
			for range 5 {
				o.ObserveConnection(oneWay)
				want(PeerFault{peer, "boom"})
				missing("boom")
				time.Sleep(time.Minute)
			}
			time.Sleep(faultTimeout)
			want()
			missing("no answer")
			o.ObserveConnection(oneWay)
			o.ObserveGreet(member.Identity{Address: peer}, true)
			want()
			for i := range 2 * maxFaults {
				o.ObserveConnection(mesh.Report{Kind: mesh.ReportRefused, Err: fmt.Errorf("no %d", i),
					Peer: member.Address{Host: "h", Port: uint16(i + 1)}})
			}
			if n := len(o.faults.listFaults()); n != maxFaults {
				t.Errorf("%d faults, want %d", n, maxFaults)
			}
		})
		if n := strings.Count(out, "cannot dial a connected peer"); n != 2 {
			t.Errorf("logged %d times, want once before and once after it was seen last:\n%s", n, out)
		}
	})
}
