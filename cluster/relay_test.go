// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
)

// TestEndIsRelayed checks that members learn of an announced end, and elect another leader, if only
// relays can be reached by the process that announces it.
func TestEndIsRelayed(t *testing.T) {
	inDurableWorld(t, relayed+1, func(t *testing.T, w *world) {
		led := w.leader()
		w.killNode(led)
		first, rest := splitRelays(led.currentSnapshot().held.Roster, led.cfg.self)
		if len(first) != relays || len(rest) != relayed-relays {
			t.Fatalf("%d relays, %d others", len(first), len(rest))
		}
		for _, e := range rest {
			w.net.Cut(led.cfg.self, e.Address)
			w.net.Cut(e.Address, led.cfg.self)
		}
		began := time.Now()
		announced := make(chan error, 1)
		go func() { announced <- w.announceEnd(led) }()
		for _, n := range w.others(led) {
			awaitNext(t, n, led)
		}
		if took := time.Since(began); took > 60*time.Millisecond {
			t.Errorf("another leader after %v", took)
		}
		if err := <-announced; err == nil {
			t.Error("no error, though the announcement reached relays only")
		}
		w.heal(led)
	})
}

// TestForgedEndOfARun checks that no member can end the run of another with a proof that the store
// of that run has not made for this cluster, or with an old one.
func TestForgedEndOfARun(t *testing.T) {
	inDurableWorld(t, 3, func(t *testing.T, w *world) {
		led := w.leader()
		forger, victim := w.others(led)[0], w.others(led)[1]
		cluster := led.currentSnapshot().held.Cluster
		own := led.Self().Identity
		later := own
		later.Incarnation++
		key := led.keys.find(own.StoreID)
		proof := func(k storekey.Key, c member.ClusterID, signed, sent member.Identity) message.RunEnded {
			b := message.RunEnded{Run: sent}
			b.StoreKey, b.Proof = k.SignEnd(c, signed)
			return b
		}
		elsewhere := later
		elsewhere.Address = forger.cfg.self
		for _, c := range []struct {
			name    string
			cluster member.ClusterID
			body    message.RunEnded
			dropped string
		}{
			{"no proof", cluster, message.RunEnded{Run: later}, dropUnprovedEnd},
			{"another store", cluster,
				proof(forger.keys.find(forger.Self().StoreID), cluster, later, later), dropUnprovedEnd},
			{"another run", cluster, proof(key, cluster, own, later), dropUnprovedEnd},
			{"another cluster", cluster, proof(key, member.ClusterID{1}, later, later), dropUnprovedEnd},
			{"of another cluster", member.ClusterID{1},
				proof(key, member.ClusterID{1}, later, later), dropKnownEnd},
			{"the present run", cluster, proof(key, cluster, own, own), dropKnownEnd},
			{"another address", cluster, proof(key, cluster, elsewhere, elsewhere), dropKnownEnd},
		} {
			before := victim.Status().Dropped[c.dropped]
			forger.sendMessage(message.Message{
				From: forger.Self().Identity, To: victim.cfg.self, Cluster: c.cluster, Body: c.body,
			})
			<-time.After(time.Second) // until the frame has arrived
			if n := victim.Status().Dropped[c.dropped] - before; n != 1 {
				t.Errorf("%s: %d frames dropped as %s", c.name, n, c.dropped)
			}
			if err := victim.WaitActive(w.within(time.Minute), 3); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if term, ok := victim.Leader(); !ok || term.Leader() != led.cfg.self.String() {
				t.Errorf("%s: the leader has changed", c.name)
			}
			<-time.After(time.Minute) // the connection is dialed again
		}
	})
}
