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

// Tests for a process that died (protocol.md 6).

// of returns the leadership that a supporter follows.
func of() statemachine.Probe { return statemachine.Probe{Leader: run(1, 1), Version: 3} }

// supporterOf returns a supporter that has restarted with TrustRefusal set to trusts.
func supporterOf(t *testing.T, trusts bool) *bus {
	t.Helper()
	b := unansweredOf(t, trusts)
	b.hand(event(1, chosen(3, 1), b.ack(2)))
	return b
}

// unansweredOf is like supporterOf, but no ack has arrived since the restart.
func unansweredOf(t *testing.T, trusts bool) *bus {
	t.Helper()
	b := supporter(t)
	n := b.nodes[0]
	n.conf = func(c *statemachine.Config) { c.TrustRefusal = trusts }
	held := n.durable
	b.start(0)
	n.durable = held
	b.run(b.timings.LeaseTimeout)
	b.hand(event(1, chosen(3, 1), message.JoinClusterResponse{Accepted: true}))
	if v := b.view(0); v.Role != member.Following || v.Leader != addr(1) {
		t.Fatalf("got no follower of n2\n%s", b)
	}
	return b
}

// A follower probes the leader's host once the leader's ack, also the first one, is a tenth of an
// interval late. It repeats the probe every quarter of an interval until an ack arrives.
func TestProbesOfALateLeader(t *testing.T) {
	for _, b := range []*bus{unansweredOf(t, false), supporterOf(t, false)} {
		testProbesOfALateLeader(t, b)
	}
}

func testProbesOfALateLeader(t *testing.T, b *bus) {
	begin, interval := b.now, b.timings.HeartbeatInterval
	quarter := interval / 4
	late := func() (at []time.Duration) {
		for b.now.Sub(begin) < 2*interval-quarter {
			b.now = b.nodes[0].Deadline()
			if p := b.nodes[0].Advance(b.now).Probe; p != nil {
				if *p != of() {
					t.Errorf("got the probe %+v, want %+v", *p, of())
				}
				at = append(at, b.now.Sub(begin))
			}
		}
		return at
	}
	first := interval + interval/10
	want := []time.Duration{first, first + quarter, first + 2*quarter, first + 3*quarter}
	if got := late(); !slices.Equal(got, want) {
		t.Errorf("got probes after %v, want %v", got, want)
	}
	b.hand(event(1, chosen(3, 1), b.ack(3)))
	begin = b.now
	if got := late(); !slices.Equal(got, want) {
		t.Errorf("got probes after %v since the ack, want %v", got, want)
	}
}

// The refusal of a port immediately removes the leader from the follower's view. The follower's
// support ends after LeaseTimeout, or immediately with TrustRefusal.
func TestARefusalEndsTheViewAndOnlyWithTrustSupport(t *testing.T) {
	for _, trusts := range []bool{false, true} {
		b := supporterOf(t, trusts)
		out := b.nodes[0].Refused(b.now, of())
		if v := b.view(0); v.Role != member.Seeking || !traced(out, statemachine.Suspected) {
			t.Errorf("trusts %v: got %v, %+v, want the leader suspected", trusts, v.Role, out.Trace)
		}
		granted, why := b.helps(2, 4)
		if granted != trusts || !trusts && why != message.ReasonSupports {
			t.Errorf("trusts %v: got granted %v, %v", trusts, granted, why)
		}
	}
}

// A refusal counts only for the run and version of the leader that the node follows.
func TestARefusalOfAnotherRunChangesNothing(t *testing.T) {
	for name, other := range map[string]func(*statemachine.Probe){
		"an earlier version": func(p *statemachine.Probe) { p.Version-- },
		"another run":        func(p *statemachine.Probe) { p.Leader.Incarnation++ },
		"another store":      func(p *statemachine.Probe) { p.Leader = newStore(p.Leader) },
		"another node":       func(p *statemachine.Probe) { p.Leader = run(2, 1) },
	} {
		b := supporterOf(t, true)
		p := of()
		other(&p)
		out := b.nodes[0].Refused(b.now, p)
		if v := b.view(0); v.Role != member.Following || len(out.Trace) > 0 {
			t.Errorf("%s: got %v, %+v, want nothing changed", name, v.Role, out.Trace)
		}
		if granted, why := b.helps(2, 4); granted || why != message.ReasonSupports {
			t.Errorf("%s: got granted %v, %v, want refused: %v", name, granted, why,
				message.ReasonSupports)
		}
	}
}
