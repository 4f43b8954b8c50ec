// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/transport"
)

// intruder is a process that knows the secret. It greets from any address, with a store of its own,
// and sends what it likes.
type intruder struct {
	*mesh.Mesh
	key   storekey.Key
	self  member.Identity
	greet message.Greet
}

var _ mesh.Handler = (*intruder)(nil)

func (i *intruder) Greet() message.Message { return message.Message{From: i.self, Body: i.greet} }

func (i *intruder) Greeted(message.Message)                              {}
func (i *intruder) Needs(member.Address) bool                            { return true }
func (i *intruder) StoreOf(member.Address) (none member.StoreID)         { return none }
func (i *intruder) Ask(member.Address, member.StoreID)                   {}
func (i *intruder) System(member.Identity, []byte) error                 { return nil }
func (i *intruder) Custom(transport.Kind, member.Identity, []byte) error { return nil }
func (i *intruder) Stream(member.Identity, []byte, mesh.BulkStream)      {}
func (i *intruder) Datagram(member.Identity, []byte)                     {}
func (i *intruder) Lost(member.Identity)                                 {}

// intrude starts an intruder that listens elsewhere and greets from the given address in the given
// run. Its greeting is otherwise that of a node.
func (w *world) intrude(as member.Address, run uint64, like *Node) *intruder {
	w.t.Helper()
	return w.intrudeAt(address(20), as, run, like)
}

// intrudeAt is like intrude, but the intruder listens at the given address.
func (w *world) intrudeAt(at, as member.Address, run uint64, like *Node) *intruder {
	w.t.Helper()
	i := &intruder{key: storekey.New()}
	i.self = member.Identity{Address: as, StoreID: i.key.StoreID(), Incarnation: run}
	i.greet = inbound{n: like}.Greet().Body.(message.Greet)
	i.greet.Name = "intruder"
	var err error
	i.Mesh, err = mesh.New(mesh.Config{
		Encode: wire.Encode, Decode: wire.Decode, Size: w.size,
		Key: func(member.StoreID) storekey.Key { return i.key },
	}, func(transport.Config) (transport.Network, error) { return w.net.Listen(at) })
	if err == nil {
		err = i.Start(i)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return i
}

// say sends a message to a node, with the claim and the cluster of the given state.
func (i *intruder) say(
	t *testing.T, to *Node, held member.State, claim member.Claim, b message.Body,
) {
	t.Helper()
	m := message.Message{
		From: i.self, To: to.cfg.self, Claim: claim, Cluster: held.Cluster, Body: b,
	}
	frame, err := wire.Encode(m)
	if err != nil {
		t.Fatalf("Encode %T: %v", b, err)
	}
	i.Notify(to.cfg.self, frame)
}

// lies returns messages by which an intruder may try to depose a leader, to replace a state or to
// use the numbers up. n grows with each call.
func (i *intruder) lies(held member.State, n uint64) map[string]message.Body {
	later := held
	later.Number = member.Number{Version: held.Version + n}
	later.Leader = i.self.Address
	own := member.Member{Identity: i.self, Status: member.Active}
	later.Roster = held.Roster.Without(held.Leader).With(own)
	id := paxos.ID{Version: later.Version, Ballot: paxos.Ballot{
		Round: n, Proposer: i.self.Address, Incarnation: i.self.Incarnation, StoreID: i.self.StoreID,
	}}
	join := message.JoinClusterRequest{Name: "intruder", Held: held.Number}
	bound, newer := join, join
	bound.Bound, newer.Held = held.Version+n, later.Number
	given := claimOf(held)
	pre := message.Proposal{Stage: message.Pre, ID: id, Held: later.Number, State: later}
	formal := message.Proposal{Stage: message.Formal, ID: id, Base: held.Number, State: later}
	vote := message.Vote{
		Stage: message.Pre, ID: id, Promised: id, Held: later.Number, State: later,
	}
	return map[string]message.Body{
		"a join":                   join,
		"a join with a bound":      bound,
		"a join with a newer held": newer,
		"a query":                  message.LeaderQuery{ID: n, Held: later},
		"a claim":                  message.SeedKeepAlive{},
		"a better claim":           message.LeaderRelieve{Winner: claimOf(later)},
		"a leader that gives up":   message.ReJoinCluster{GivenUp: given, Winner: claimOf(later)},
		"a leader that leaves":     message.MemberLeave{GivenUp: given},
		"a state":                  message.ClusterAlignment{State: later},
		"an election":              message.LeaderElected{ID: id, State: later},
		"a pre proposal":           pre,
		"a formal proposal":        formal,
		"a vote":                   vote,
		"a keep-alive":             message.LeaderKeepAlive{Number: held.Number, Bound: later.Version},
		"nothing":                  nil,
	}
}

// TestIntruders tests protocol.md section 3: a process that knows the secret but is not a member
// does not depose a leader, replace a state or use the numbers up. It greets from the address of
// the leader, of a follower and of no member, in an early and a late run, and sends one kind of
// message to all nodes, four times a second for a minute, with a new connection and a greater run
// each second. With -short, it ends after 15 s, which is still longer than TTLTimeout.
func TestIntruders(t *testing.T) {
	var names []string
	for name := range (&intruder{}).lies(member.State{}, 1) {
		names = append(names, name)
	}
	for _, as := range []string{"leader", "follower", "stranger"} {
		t.Run("as the "+as, func(t *testing.T) {
			for _, name := range names {
				for _, run := range []uint64{1, 1 << 43} {
					t.Run(fmt.Sprintf("%s in run %d", name, run), func(t *testing.T) {
						inWorld(t, 3, func(t *testing.T, w *world) { testIntruder(t, w, as, name, run) })
					})
				}
			}
		})
	}
}

func testIntruder(t *testing.T, w *world, as, name string, run uint64) {
	leader := w.leader()
	address := map[string]member.Address{
		"leader": leader.cfg.self, "follower": w.others(leader)[0].cfg.self, "stranger": address(30),
	}[as]
	term, ok := leader.Leader()
	if !ok {
		t.Fatal("no leader")
	}
	before := leader.View()
	held := leader.currentSnapshot().held
	reached := countHandshakes(w)
	seconds := uint64(60)
	if testing.Short() {
		seconds = 15
	}
	for n := range seconds {
		i := w.intrude(address, run+n, leader)
		for step := range uint64(4) {
			for _, to := range w.nodes {
				if to.cfg.self == address {
					continue
				}
				claim := member.Claim{Chosen: true, Version: held.Version + n, Leader: address}
				if body := i.lies(held, 1+4*n+step)[name]; body != nil {
					i.say(t, to, held, claim, body)
				} else {
					i.Prepare([]member.Identity{{Address: to.cfg.self}}, true) // greets only
				}
			}
			time.Sleep(250 * time.Millisecond)
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	if got := countHandshakes(w) - reached; got < seconds {
		t.Errorf("the intruder reached the nodes %d times, want %d at least", got, seconds)
	}
	if !term.Valid() {
		t.Error("the leader lost its term")
	}
	for _, n := range w.nodes {
		after := n.View()
		after.Self, after.Role = before.Self, before.Role
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the view of %v has changed, -before +after:\n%s", n.cfg.self, diff)
		}
	}
}

// countHandshakes returns the number of handshakes that the nodes have completed or refused.
func countHandshakes(w *world) (n uint64) {
	for _, node := range w.nodes {
		for result, count := range node.Status().Transport.Handshakes {
			if result != mesh.ResultFailed.String() {
				n += count
			}
		}
	}
	return n
}

// TestMembersReturnDespiteClaims restarts a follower, with its store and with an empty directory,
// while an intruder claims its address ten times a second. The follower gets its place back about
// as soon as without the intruder, and the leader stays.
func TestMembersReturnDespiteClaims(t *testing.T) {
	for _, c := range []struct {
		name   string
		lost   bool
		within time.Duration
	}{
		{"with its store", false, time.Second},
		// The others wait until the earlier store is silent, and the joiner asks again.
		{"with an empty directory", true, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3)
				defer w.close()
				w.durable()
				w.form()
				term, _ := w.leader().Leader()
				i := slices.IndexFunc(w.nodes, func(n *Node) bool { return n != w.leader() })
				intruder := w.intrude(address(i), 1<<43, w.leader())
				done, others := make(chan struct{}), slices.Clone(w.nodes)
				var work sync.WaitGroup
				work.Go(func() {
					for {
						select {
						case <-done:
							return
						case <-time.After(100 * time.Millisecond):
						}
						for n, to := range others {
							if n != i {
								ask := message.LeaderQuery{}
								intruder.say(t, to, member.State{}, member.Claim{}, ask)
							}
						}
					}
				})
				time.Sleep(5 * time.Second)
				w.end(w.nodes[i])
				cfg := w.config(i, Config{JoinOnly: c.lost})
				if c.lost {
					if err := os.RemoveAll(w.dir(i)); err != nil {
						t.Fatal(err)
					}
				}
				back, err := Start(w.within(c.within), cfg, w.options(i)...)
				if err != nil {
					t.Errorf("Start: got %v, want a place within %v", err, c.within)
				} else {
					w.nodes[i] = back
				}
				close(done)
				work.Wait()
				_ = intruder.Close()
				if !term.Valid() {
					t.Error("the leader lost its term")
				}
			})
		})
	}
}

// TestGreetingsOfOthersEndNoStart restarts a member with an empty directory, while intruders greet
// it from the addresses of all others with another size. It gets its place.
func TestGreetingsOfOthersEndNoStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.durable()
		w.form()
		lost := slices.IndexFunc(w.nodes, func(n *Node) bool { return n != w.leader() })
		victim := member.Identity{Address: w.nodes[lost].cfg.self}
		w.end(w.nodes[lost])
		if err := os.RemoveAll(w.dir(lost)); err != nil {
			t.Fatal(err)
		}
		for i, n := range w.others(w.nodes[lost]) {
			intruder := w.intrudeAt(address(20+i), n.cfg.self, 1, n)
			defer intruder.Close()
			intruder.greet.Size++
			intruder.Prepare([]member.Identity{victim}, true)
		}
		back, err := w.start(lost, Config{JoinOnly: true})
		if w.nodes[lost] = back; err != nil {
			t.Errorf("Start: got %v, want a place", err)
		}
	})
}
