// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// lost returns the first trace of a lost leader.
func lost(t *testing.T, traces []statemachine.Trace) statemachine.Trace {
	t.Helper()
	i := slices.IndexFunc(traces, func(tr statemachine.Trace) bool {
		return tr.Cause != statemachine.CauseNone
	})
	if i < 0 {
		t.Fatalf("no leader was lost: %+v", traces)
	}
	return traces[i]
}

// TestEachLossHasACause checks the cause that a follower of n2 traces for each way to lose n2.
func TestEachLossHasACause(t *testing.T) {
	voted := state(3, 4, 0, 2)
	for _, tc := range []struct {
		name string
		does func(*bus) statemachine.Output
		what statemachine.TraceKind
		why  statemachine.Cause
	}{
		{"its host refuses the port", func(b *bus) statemachine.Output {
			return b.nodes[0].Refused(b.now, of())
		}, statemachine.Suspected, statemachine.CauseCrash},
		{"a later run of it", func(b *bus) statemachine.Output {
			in := event(1, member.Claim{}, message.LeaderQuery{ID: 1})
			in.From = run(1, 2)
			return b.hand(in)
		}, statemachine.Suspected, statemachine.CauseCrash},
		{"silence", func(b *bus) statemachine.Output {
			b.now = b.now.Add(b.timings.LeaderTimeout)
			return b.nodes[0].Advance(b.now)
		}, statemachine.Suspected, statemachine.CauseSilence},
		{"silence, and another store at its address", func(b *bus) statemachine.Output {
			b.hand(impostor(1, 2, member.Claim{}, message.LeaderQuery{ID: 1}))
			b.now = b.now.Add(b.timings.LeaderTimeout)
			return b.nodes[0].Advance(b.now)
		}, statemachine.Suspected, statemachine.CauseReplaced},
		{"silence after it was heard beside another store", func(b *bus) statemachine.Output {
			b.hand(impostor(1, 2, member.Claim{}, message.LeaderQuery{ID: 1}))
			b.hand(event(1, chosen(3, 1), b.ack(2)))
			b.now = b.now.Add(b.timings.LeaderTimeout)
			return b.nodes[0].Advance(b.now)
		}, statemachine.Suspected, statemachine.CauseSilence},
		{"its acks show that it has no majority", func(b *bus) statemachine.Output {
			b.now = b.now.Add(b.timings.LeaderTimeout / 2)
			b.hand(event(1, chosen(3, 1), message.LeaderKeepAliveAck{}))
			b.now = b.now.Add(b.timings.LeaderTimeout / 2)
			return b.nodes[0].Advance(b.now)
		}, statemachine.Suspected, statemachine.CauseLease},
		{"it leaves", func(b *bus) statemachine.Output {
			return b.hand(event(1, member.Claim{}, message.MemberLeave{GivenUp: chosen(3, 1)}))
		}, statemachine.Suspected, statemachine.CauseHandOver},
		{"it gave up", func(b *bus) statemachine.Output {
			return b.hand(event(1, member.Claim{}, message.ReJoinCluster{GivenUp: chosen(3, 1)}))
		}, statemachine.Suspected, statemachine.CauseLease},
		{"it gave up for another", func(b *bus) statemachine.Output {
			return b.hand(event(1, member.Claim{},
				message.ReJoinCluster{GivenUp: chosen(3, 1), Winner: chosen(5, 2)}))
		}, statemachine.Suspected, statemachine.CauseVersion},
		{"a better claim", func(b *bus) statemachine.Output {
			return b.hand(event(2, chosen(4, 2), message.SeedKeepAlive{}))
		}, statemachine.Overruled, statemachine.CauseVersion},
		{"another was elected", func(b *bus) statemachine.Output {
			return b.hand(event(2, chosen(4, 2), message.LeaderElected{State: voted}))
		}, statemachine.Overruled, statemachine.CauseOutvoted},
	} {
		b := supporter(t)
		got := lost(t, tc.does(b).Trace)
		if got.Kind != tc.what || got.Cause != tc.why || got.Peer != addr(1) || got.Version != 3 {
			t.Errorf("%s: got %+v, want %v because of %v", tc.name, got, tc.what, tc.why)
		}
		if got.Heard.IsZero() || got.Heard.After(b.now) {
			t.Errorf("%s: n2 was heard at %v, it is %v", tc.name, got.Heard, b.now)
		}
	}
}

// TestEachStepDownHasACause checks the cause of each step-down, including those of a conflict.
func TestEachStepDownHasACause(t *testing.T) {
	for _, tc := range []struct {
		name string
		at   func(*testing.T) *bus
		does func(*bus) statemachine.Output
		why  statemachine.Cause
	}{
		{"a better claim", func(t *testing.T) *bus { return aLeader(t, 3) },
			func(b *bus) statemachine.Output {
				return b.hand(event(1, chosen(9, 1), message.SeedKeepAlive{}))
			}, statemachine.CauseVersion},
		{"chosen against provisional", func(t *testing.T) *bus { return aFounder(t, 3) },
			func(b *bus) statemachine.Output {
				return b.hand(event(1, chosen(1, 1), message.SeedKeepAlive{}))
			}, statemachine.CauseChosen},
		{"a greater address", func(t *testing.T) *bus { return aFounder(t, 3) },
			func(b *bus) statemachine.Output {
				own := b.view(0)
				return b.hand(event(2, provisional(own.Version, 2), message.SeedKeepAlive{}))
			}, statemachine.CauseAddress},
		{"no answers", func(t *testing.T) *bus { return aQuorateLeader(t, 3) },
			func(b *bus) statemachine.Output {
				b.now = b.now.Add(b.timings.LeaseTimeout + b.timings.LeaderTimeout)
				return b.nodes[0].Advance(b.now)
			}, statemachine.CauseLease},
		{"ordered to leave", func(t *testing.T) *bus { return aQuorateLeader(t, 3) },
			func(b *bus) statemachine.Output { return b.nodes[0].Leave(b.now) },
			statemachine.CauseHandOver},
	} {
		b := tc.at(t)
		if got := lost(t, tc.does(b).Trace); got.Kind != statemachine.SteppedDown || got.Cause != tc.why {
			t.Errorf("%s: got %+v, want it to step down because of %v", tc.name, got, tc.why)
		}
	}
}

// TestVotesAreTraced checks the traces of the voter and of the proposer.
func TestVotesAreTraced(t *testing.T) {
	b, p := aProposer(t, 3)
	out := b.hand(event(1, member.Claim{}, yes(p)))
	want := statemachine.Trace{
		Kind: statemachine.Counted, Peer: addr(1), Version: p.ID.Version, Stage: p.Stage,
	}
	if !slices.Contains(out.Trace, want) {
		t.Errorf("got %+v, want %+v among them", out.Trace, want)
	}
	voter := aVoter(t, 3)
	q := p
	q.ID.Ballot.Proposer, q.ID.Ballot.StoreID = addr(1), run(1, 1).StoreID
	q.ID.Ballot.Incarnation = 1
	out = voter.hand(event(1, member.Claim{}, q))
	want.Kind = statemachine.Voted
	if !slices.Contains(out.Trace, want) {
		t.Errorf("got %+v, want %+v among them", out.Trace, want)
	}
}

// TestCausesHaveNames checks that the names differ.
func TestCausesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for c := statemachine.CauseNone; c <= statemachine.Causes; c++ {
		name := c.String()
		if seen[name] || (c == statemachine.Causes) != strings.HasPrefix(name, "Cause(") {
			t.Errorf("cause %d: got %q", c, name)
		}
		seen[name] = true
	}
}

// TestALateHeartbeatIsTraced checks that a late heartbeat of a leader or a member is traced at most
// once per one and a half intervals.
func TestALateHeartbeatIsTraced(t *testing.T) {
	late := func(b *bus) (n int) {
		for end := b.now.Add(b.timings.HeartbeatInterval * 2); b.now.Before(end); {
			b.now = b.nodes[0].Deadline()
			for _, tr := range b.nodes[0].Advance(b.now).Trace {
				if tr.Kind == statemachine.Missed && tr.Peer == addr(1) {
					n++
				}
			}
		}
		return n
	}
	if n := late(supporter(t)); n != 1 {
		t.Errorf("a follower missed %d heartbeats of its leader, want 1", n)
	}
	if n := late(aQuorateLeader(t, 3)); n != 1 {
		t.Errorf("a leader missed %d heartbeats of a member, want 1", n)
	}
}
