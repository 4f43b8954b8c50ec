// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

// leaderWords returns messages that only a leader may send. They contain the next state of the
// cluster, in which the given member is leaving.
func leaderWords(leader *Node, gone member.Address) []message.Body {
	held := leader.currentSnapshot().held
	out, _ := held.Roster.Find(gone)
	out.Status = member.Leaving
	next := held.Next(held.Roster.With(out))
	stamp := message.Stamp{
		Version: held.Version, Incarnation: leader.Self().Incarnation, Clock: 1 << 40,
	}
	return []message.Body{
		message.ClusterAlignment{State: next},
		message.MemberStatusUpdate{Number: next.Number, Member: out},
		message.LeaderKeepAliveAck{Stamp: stamp, Healthy: true, Quorate: true},
		message.ReJoinCluster{GivenUp: claimOf(held)},
	}
}

func claimOf(s member.State) member.Claim {
	return member.Claim{Chosen: true, Version: s.Version, Leader: s.Leader}
}

// TestForgedLeaderMessages lets a follower send messages that only the leader may send, in its own
// name and in the leader's. The messages must not change any view. A message with a forged sender
// must close the connection.
func TestForgedLeaderMessages(t *testing.T) {
	for _, asLeader := range []bool{false, true} {
		inWorld(t, 3, func(t *testing.T, w *world) {
			leader := w.leader()
			followers := w.others(leader)
			forger, victim := followers[0], followers[1]
			views := func() []member.View {
				views := []member.View{leader.View(), victim.View()}
				for i := range views {
					// While the forger is not connected, the leader may count it as unreachable.
					views[i].Revision = 0
				}
				return views
			}
			before := views()
			words := leaderWords(leader, victim.cfg.self)
			dropped := func() (count uint64) {
				for _, n := range []*Node{leader, victim} {
					d := n.Status().Dropped
					if asLeader {
						count += d[dropOtherSender]
					} else {
						count += d["other leader"] + d["other version"] + d["foreign echo"]
					}
				}
				return count
			}
			counted := dropped()
			for _, body := range words {
				m := message.Message{
					From: forger.Self().Identity, Claim: claimOf(leader.currentSnapshot().held), Body: body,
				}
				if asLeader {
					m.From = leader.Self().Identity
				}
				for _, to := range []*Node{leader, victim} {
					m.To = to.cfg.self
					frame, err := wire.Encode(m)
					if err != nil {
						t.Fatalf("Encode %T: %v", body, err)
					}
					forger.net.Notify(to.cfg.self, frame)
				}
				time.Sleep(time.Second) // wait until a closed connection is restored
			}
			synctest.Wait()
			if got := dropped() - counted; got < uint64(2*len(words)) {
				t.Errorf("as leader %v: %d refused, want %d at least", asLeader, got, 2*len(words))
			}
			if diff := cmp.Diff(before, views()); diff != "" {
				t.Errorf("as leader %v: views changed, -want +got:\n%s", asLeader, diff)
			}
			garbage := victim.Status().Transport.Dropped[mesh.DropGarbage.String()]
			if (garbage == uint64(len(words))) != asLeader {
				t.Errorf("as leader %v: %d connections closed for it", asLeader, garbage)
			}
		})
	}
}

// TestHostileFramesCloseTheConnection checks that a body that is expensive to decode is refused
// before it is decoded, and closes the connection.
func TestHostileFramesCloseTheConnection(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		n, hostile := w.nodes[0], w.nodes[1]
		length := func(first byte, n uint32) []byte {
			return binary.BigEndian.AppendUint32([]byte{first}, n)
		}
		bodies := [][]byte{
			length(0xdd, 1<<32-1), // an array of four billion elements
			append([]byte{0x92}, length(0xc6, 2e9)...),
			bytes.Repeat([]byte{0x91}, mesh.DefaultCustomBytes-3), // nested as deeply as a frame allows
			append([]byte{0x93, 0x90, 0x90}, bytes.Repeat([]byte{0x91}, 100_000)...),
		}
		for i, body := range bodies {
			frame := append([]byte{0xae, wire.Version, byte(message.KindVote)}, body...)
			hostile.net.Notify(n.cfg.self, frame)
			time.Sleep(time.Second)
			event := append([]byte{0xae, wire.Version, 0xff}, body...)
			if err := hostile.net.Send(t.Context(), n.cfg.self, event); err != nil {
				t.Fatalf("Send: %v", err)
			}
			time.Sleep(time.Second)
			want := uint64(2 * (i + 1))
			for _, p := range n.Status().Peers {
				if p.Garbage != want {
					t.Errorf("body %d: %d counted of %v, want %d", i, p.Garbage, p.Address, want)
				}
			}
			if got := n.Status().Dropped[messaging.DropMalformed]; got != want {
				t.Errorf("body %d: %d malformed, want %d", i, got, want)
			}
		}
		for _, n := range w.nodes {
			if err := n.WaitActive(w.within(10*time.Second), 2); err != nil {
				t.Error(err)
			}
		}
	})
}
