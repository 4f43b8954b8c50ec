// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"testing/synctest"
	"time"
)

// Even before the leader is lost, voters are connected to the members that would propose first. So
// an election needs no handshake, however many voters there are.
func TestVotersAreConnectedBeforeTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 9)
		defer w.close()
		w.form()
		time.Sleep(time.Second)
		old, lost := w.leader(), time.Now()
		w.cut(old)
		w.nodes = w.others(old)
		defer func() { w.nodes = append(w.nodes, old) }() // so that w.close also closes the old leader
		time.Sleep(2 * old.cfg.LeaderTimeout)
		connected := 0
		for _, p := range w.leader().Status().Peers {
			if p.Address == old.cfg.self {
				continue
			}
			if !p.Connected || p.Since.After(lost) {
				t.Errorf("%v was connected to %v after the loss", w.leader().cfg.self, p.Address)
			}
			connected++
		}
		if want := len(w.nodes) - 1; connected != want {
			t.Errorf("the new leader knows %d survivors, want %d", connected, want)
		}
	})
}
