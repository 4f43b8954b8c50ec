// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// These helpers extend the helpers of the bus. A test of a single node uses n1, index 0. The others
// are not started, and the test sends their messages.

// run returns the identity of a run of node i on the store that the bus gave it.
func run(i int, incarnation uint64) member.Identity {
	return member.Identity{
		Address:     addr(i),
		StoreID:     member.StoreID{byte(i + 1)},
		Incarnation: incarnation,
	}
}

// newStore returns the identity of the same node with another store.
func newStore(id member.Identity) member.Identity {
	id.StoreID[1]++
	return id
}

func chosen(version uint64, leader int) member.Claim {
	return member.Claim{Chosen: true, Version: version, Leader: addr(leader)}
}

func provisional(version uint64, leader int) member.Claim {
	return member.Claim{Version: version, Leader: addr(leader)}
}

func number(version, revision uint64) member.Number {
	return member.Number{Version: version, Revision: revision}
}

// ourCluster is the cluster id of all states and messages in tests, unless stated otherwise.
var ourCluster = member.ClusterID{1}

// state returns a state of the given size: the first nodes are active members, in their first runs.
func state(size int, version, revision uint64, leader int) member.State {
	s := member.State{Number: number(version, revision), Cluster: ourCluster, Leader: addr(leader)}
	for i := range size {
		s.Roster = s.Roster.With(member.Member{Identity: run(i, 1), Seed: true, Status: member.Active})
	}
	return s
}

// event returns a message to n1 from the first run of the given node.
func event(from int, claim member.Claim, body message.Body) message.Message {
	return message.Message{
		From: run(from, 1), To: addr(0), Claim: claim, Cluster: ourCluster, Body: body,
	}
}

// hand delivers a message to n1 now, regardless of its address, and applies the output.
func (b *bus) hand(in message.Message) statemachine.Output {
	b.t.Helper()
	return b.handTo(0, in)
}

// handTo delivers a message to node i.
func (b *bus) handTo(i int, in message.Message) statemachine.Output {
	b.t.Helper()
	out := b.nodes[i].Step(b.now, in)
	b.take(b.nodes[i], out)
	return out
}

// holding returns a bus whose nodes all hold s. It does not start the nodes.
func holding(t *testing.T, size int, s member.State) *bus {
	t.Helper()
	b := newBus(t, size, size)
	for _, n := range b.nodes {
		n.durable.Held = s
	}
	return b
}

// aVoter returns node n1 of a cluster that holds 3.0, in which n2 leads. n1 has restarted, its wait
// after the start is over, and its queries get no answer.
func aVoter(t *testing.T, size int) *bus {
	t.Helper()
	b := holding(t, size, state(size, 3, 0, 1))
	b.start(0)
	b.run(b.timings.LeaseTimeout + 1)
	return b
}

// aFollower returns node n1, which follows n2 in version 3 and has taken revision 1. It has
// received no ack.
func aFollower(t *testing.T, size int) *bus {
	t.Helper()
	b := holding(t, size, state(size, 3, 0, 1))
	b.start(0)
	b.hand(event(1, chosen(3, 1), message.ClusterAlignment{State: state(size, 3, 1, 1)}))
	if v := b.view(0); v.Role != member.Following || v.Leader != addr(1) {
		t.Fatalf("got no follower of n2\n%s", b)
	}
	return b
}

// ack returns a stamped ack from n2, the leader in aFollower.
func (b *bus) ack(clock int64) message.LeaderKeepAliveAck {
	return message.LeaderKeepAliveAck{
		Stamp:   message.Stamp{Version: 3, Incarnation: 1, Clock: clock},
		Healthy: true,
		Quorate: true,
	}
}

// aLeader returns node n1, which was just chosen to lead version 4. No member has sent a
// keep-alive.
func aLeader(t *testing.T, size int) *bus {
	t.Helper()
	b := aVoter(t, size)
	b.hand(event(1, member.Claim{}, message.LeaderElected{State: state(size, 4, 0, 0)}))
	if v := b.view(0); v.Role != member.Leading {
		t.Fatalf("got no leader\n%s", b)
	}
	return b
}

// keepAlive returns the keep-alive of a member that has the state of n1, its leader. Unless the
// given time is zero, the keep-alive echoes a stamp made at that time.
func (b *bus) keepAlive(from int, echo time.Time) message.Message {
	held := b.nodes[0].Durable().Held
	k := message.LeaderKeepAlive{Number: held.Number, Digest: held.Digest()}
	if !echo.IsZero() {
		k.Echo = message.Stamp{Version: 4, Incarnation: 1, Clock: echo.UnixNano()}
	}
	return event(from, chosen(4, 0), k)
}

// aQuorateLeader returns a leader whose members have all shown its state and echoed a stamp made
// now.
func aQuorateLeader(t *testing.T, size int) *bus {
	t.Helper()
	b := aLeader(t, size)
	b.keepQuorate(size)
	if b.quorate() != 0 {
		t.Fatalf("got no quorate leader\n%s", b)
	}
	return b
}

// keepQuorate makes n2 to n(size) show n1's state and echo a stamp made now.
func (b *bus) keepQuorate(size int) {
	b.t.Helper()
	for i := 1; i < size; i++ {
		b.hand(b.keepAlive(i, b.now))
	}
}

// aFounder returns node n1, one of up to five seeds, which has declared itself because it got no
// answer.
func aFounder(t *testing.T, size int) *bus {
	t.Helper()
	b := newBus(t, size, min(size, 5))
	b.start(0)
	b.run(b.timings.RetryInterval + 1)
	if v := b.view(0); v.Role != member.Provisional {
		t.Fatalf("got no provisional leader\n%s", b)
	}
	return b
}

// aProposer returns a voter that has sent its pre proposal for version 4, and the proposal.
func aProposer(t *testing.T, size int) (*bus, message.Proposal) {
	t.Helper()
	b := aVoter(t, size)
	return b, b.proposes(size)
}

// proposes answers n1's query on behalf of enough members without a leader, and returns the pre
// proposal that n1 then sends.
func (b *bus) proposes(size int) message.Proposal {
	b.t.Helper()
	b.untilSent(2*b.timings.LeaderTimeout, message.KindLeaderStatusQuery)
	q := last[message.LeaderStatusQuery](b)
	var out statemachine.Output
	for i := 1; i < member.Quorum(size); i++ {
		out = b.hand(event(i, member.Claim{},
			message.LeaderStatusQueryResponse{ID: q.ID, Held: b.nodes[0].Durable().Held.Number}))
	}
	ps := bodies[message.Proposal](out.Send)
	if len(ps) == 0 || ps[0].Stage != message.Pre {
		b.t.Fatalf("got no pre proposal after a quorum of unhealthy answers\n%s", b)
	}
	return ps[0]
}

// yes and no return a vote that grants or refuses p.
func yes(p message.Proposal) message.Vote {
	return message.Vote{Stage: p.Stage, ID: p.ID, Granted: true, Promised: p.ID}
}

func no(p message.Proposal, why message.Reason) message.Vote {
	return message.Vote{Stage: p.Stage, ID: p.ID, Reason: why}
}

// wins delivers to n1 the votes that make p succeed and returns the last output.
func (b *bus) wins(p message.Proposal) statemachine.Output {
	b.t.Helper()
	var out statemachine.Output
	for i := 1; i < member.Quorum(b.size); i++ {
		out = b.hand(event(i, member.Claim{}, yes(p)))
	}
	return out
}

// bodies returns the bodies of the messages that have type T.
func bodies[T message.Body](sent []message.Message) []T {
	var out []T
	for _, m := range sent {
		if body, ok := m.Body.(T); ok {
			out = append(out, body)
		}
	}
	return out
}

// last returns the newest body of one type that any node sent.
func last[T message.Body](b *bus) T {
	b.t.Helper()
	for _, f := range slices.Backward(b.sent) {
		if body, ok := f.msg.Body.(T); ok {
			return body
		}
	}
	var none T
	b.t.Fatalf("got no %T sent", none)
	return none
}

// untilSent advances the clock until a message of the given kind is sent, and returns the elapsed
// time.
func (b *bus) untilSent(limit time.Duration, kind message.Kind) time.Duration {
	b.t.Helper()
	mark := len(b.sent)
	return b.until(limit, kind.String(), func() bool { return len(b.mail(mark, kind)) > 0 })
}

// mail returns the messages of the given kind that were sent after the given mark.
func (b *bus) mail(mark int, kind message.Kind) []flight {
	var out []flight
	for _, f := range b.sent[mark:] {
		if f.msg.Body.Kind() == kind {
			out = append(out, f)
		}
	}
	return out
}

func (b *bus) view(i int) member.View { return b.nodes[i].View(b.now) }

// status returns the status that node i's view shows for another node.
func (b *bus) status(i, of int) member.Status {
	e, _ := b.view(i).Member(addr(of))
	return e.Status
}

// formed returns a cluster whose nodes are all running and whose leader has had authority for a
// second.
func formed(t *testing.T, size, seeds int) *bus {
	t.Helper()
	b := newBus(t, size, seeds)
	for i := range size {
		b.start(i)
	}
	b.settle(size)
	b.run(time.Second)
	return b
}

// settle advances the clock until all running nodes follow one quorate leader with the given number
// of active members, and returns the elapsed time.
func (b *bus) settle(active int) time.Duration {
	b.t.Helper()
	return b.until(3*b.timings.TTLTimeout, "settled cluster", func() bool { return b.settled(active) })
}

// isolate cuts each of the given nodes off from all other nodes.
func (b *bus) isolate(ids ...int) {
	b.cut = func(m message.Message) bool {
		return slices.ContainsFunc(ids, func(i int) bool {
			return m.From.Address == addr(i) || m.To == addr(i)
		})
	}
}

// part splits the network into the given nodes and the rest.
func (b *bus) part(left ...int) {
	in := func(a member.Address) bool {
		return slices.ContainsFunc(left, func(i int) bool { return a == addr(i) })
	}
	b.cut = func(m message.Message) bool { return in(m.From.Address) != in(m.To) }
}

func (b *bus) heal() { b.cut = nil }

// others returns all nodes of the bus except one.
func (b *bus) others(but int) []int {
	var out []int
	for i := range b.nodes {
		if i != but {
			out = append(out, i)
		}
	}
	return out
}

// kinds returns the kind and the receiver of each message.
func kinds(sent []message.Message) []string {
	out := make([]string, len(sent))
	for i, m := range sent {
		out[i] = m.To.Host + ": " + m.Body.Kind().String()
	}
	return out
}

// traced reports whether an output has a trace of the given kind.
func traced(out statemachine.Output, what statemachine.TraceKind) bool {
	return slices.ContainsFunc(out.Trace, func(t statemachine.Trace) bool { return t.Kind == what })
}

// gave reports whether an output has a refusal with the given reason.
func gave(out statemachine.Output, why message.Reason) bool {
	return slices.ContainsFunc(out.Trace, func(t statemachine.Trace) bool { return t.Reason == why })
}
