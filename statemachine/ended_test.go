// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// ended returns the message of a later run of n2 which announces that the runs before it are over.
func ended(incarnation uint64) message.Message {
	in := event(1, member.Claim{}, message.SeedKeepAlive{})
	in.From.Incarnation = incarnation
	return in
}

// A follower asks the others immediately when the end of its leader's run is announced, also if the
// host of the leader has refused its port, so that the follower waits for the end of its support.
func TestAnnouncedEndOfTheLeader(t *testing.T) {
	for _, refused := range []bool{false, true} {
		b := supporterOf(t, false)
		if refused {
			b.take(b.nodes[0], b.nodes[0].Refused(b.now, of()))
			b.run(b.timings.HeartbeatInterval)
		}
		mark := len(b.sent)
		b.hand(ended(1))
		b.run(b.timings.HeartbeatInterval)
		if len(b.mail(mark, message.KindLeaderStatusQuery)) > 0 {
			t.Errorf("refused %v: a message of the same run ended its support", refused)
		}
		mark = len(b.sent)
		b.hand(ended(2))
		b.run(b.timings.HeartbeatInterval / 2)
		if len(b.mail(mark, message.KindLeaderStatusQuery)) == 0 {
			t.Errorf("refused %v: asked no voter\n%s", refused, b)
		}
		if len(b.mail(mark, message.KindSeedKeepAliveAck)) == 0 {
			t.Errorf("refused %v: no answer\n%s", refused, b)
		}
	}
}

// A leader shows the announced end of a member's run in the state: the member is unreachable, and
// its records are gone. It waits until it is quorate.
func TestAnnouncedEndOfAMember(t *testing.T) {
	b := aLeader(t, 3)
	b.hand(ended(2))
	if s := b.status(0, 1); s != member.Active {
		t.Errorf("without authority: %v", s)
	}
	b.hand(b.keepAlive(2, b.now))
	e, _ := b.nodes[0].Durable().Held.Roster.Find(addr(1))
	if e.Status != member.Unreachable || e.Incarnation != 2 {
		t.Errorf("got %+v, want run 2, unreachable", e)
	}
	revision := b.nodes[0].Durable().Held.Revision
	b.hand(ended(2))
	b.hand(ended(1))
	if held := b.nodes[0].Durable().Held; held.Revision != revision {
		t.Errorf("again: revision %d, want %d", held.Revision, revision)
	}
	join := event(1, member.Claim{}, message.JoinClusterRequest{})
	join.From.Incarnation = 3
	b.hand(join)
	if s := b.status(0, 1); s != member.Active {
		t.Errorf("the next run is %v", s)
	}
}
