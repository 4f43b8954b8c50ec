// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// world interns the events and the states of machines. It caches the effect of each step, because
// most states of the cluster are combinations of known machine states.
type world struct {
	fields fields
	nodes  []*node
	events []event
	known  map[string]int32 // events by content
	sets   sets
	// refusals means that refused votes are delivered too.
	refusals bool
	// start starts a run of a node.
	start func(statemachine.Config, paxos.Durable) machine
}

// machine is the subject of the search: a production node, or the algorithm of package paxos
// alone.
type machine interface {
	Step(now time.Time, in message.Message) statemachine.Output
	Advance(now time.Time) statemachine.Output
	Deadline() time.Time
	View(now time.Time) member.View
	Durable() paxos.Durable
	Check() error
}

// node is one process, with all states of it that were found.
type node struct {
	fields fields
	cfg    statemachine.Config
	states []*state
	known  map[string]int32
}

type state struct {
	machine machine
	held    member.Number
	leads   bool // whether it leads or follows
	// Cached effects of each event, of each event after the node lost its leader, of the timer, and of
	// a crash.
	taken, takenLate map[int32]*effect
	fired, crashed   *effect
}

// event is a message that was sent.
type event struct {
	msg  message.Message
	to   int
	base member.Number // the base of the state that a LeaderElected announces
}

// effect is the result of one step of a node.
type effect struct {
	next     int32   // its new state
	sent     []int32 // events that may arrive from now on
	attempts int     // number of proposals begun
	err      error   // violation found in the step
}

// isIdle reports whether a step changed nothing.
func (e *effect) isIdle(from int32) bool {
	return e.next == from && len(e.sent) == 0 && e.err == nil
}

// constant is a source of randomness that makes steps deterministic.
type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

// noTimeout is a timeout that never expires: the steps after it are not part of an
// election.
const noTimeout = 1000 * time.Hour

func exploredTimings() message.Timings {
	return message.Timings{
		HeartbeatInterval: 100 * time.Millisecond,
		HeartbeatTimeout:  time.Second,
		LeaderTimeout:     time.Second,
		LeaseTimeout:      time.Second,
		TTLTimeout:        noTimeout,
		RetryInterval:     500 * time.Millisecond,
	}
}

func newWorld(opt Options) *world {
	w := &world{
		fields: fields{}, known: map[string]int32{}, sets: newSets(),
		refusals: opt.Refusals, start: startRun,
	}
	size := opt.Size
	held := member.State{Number: member.Number{Version: 1}, Cluster: member.ClusterID{1}}
	for i := range size {
		addr := member.Address{Host: fmt.Sprintf("n%d", i+1), Port: 7000}
		w.nodes = append(w.nodes, &node{
			fields: w.fields,
			known:  map[string]int32{},
			cfg: statemachine.Config{
				Address: addr,
				Name:    addr.Host,
				Size:    size,
				Timings: exploredTimings(),
				Rand:    rand.New(constant(0x9e3779b97f4a7c15)),
			},
		})
		id := member.Identity{Address: addr, StoreID: member.StoreID{byte(i + 1)}, Incarnation: 1}
		held.Roster = held.Roster.With(member.Member{Identity: id, Status: member.Active})
	}
	held.Leader = held.Roster[0].Address
	if opt.Paxos {
		w.start = func(cfg statemachine.Config, d paxos.Durable) machine {
			return newVoter(cfg, d, held.Roster)
		}
	}
	for i, n := range w.nodes {
		n.cfg.Seeds = []member.Address{held.Leader}
		n.addState(w.start(n.cfg, paxos.Durable{
			StoreID:     held.Roster[i].StoreID,
			Incarnation: 1,
			Acceptor:    paxos.Acceptor{Held: held},
		}))
	}
	return w
}

// startRun starts a run and completes its wait after the start. A node that waits behaves like one
// that has not restarted yet.
func startRun(cfg statemachine.Config, d paxos.Durable) machine {
	epoch := time.Unix(1000, 0)
	m := statemachine.New(cfg, d, epoch)
	m.Advance(epoch.Add(cfg.Timings.LeaseTimeout))
	return m
}

// addState returns the number of the machine's state, and adds the state if it is new.
func (n *node) addState(m machine) int32 {
	key := n.fields.keyOf(m)
	if i, ok := n.known[key]; ok {
		return i
	}
	i := int32(len(n.states))
	n.known[key] = i
	n.states = append(n.states, &state{
		machine:   m,
		held:      m.Durable().Held.Number,
		leads:     m.View(time.Time{}).Role != member.Seeking,
		taken:     map[int32]*effect{},
		takenLate: map[int32]*effect{},
	})
	return i
}
