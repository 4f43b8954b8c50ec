// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"testing"
	"time"

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

// loseEnded returns node n1, whose leader n2 has announced its end. n1 has asked the others just
// now.
func loseEnded(t *testing.T) *bus {
	t.Helper()
	b := supporterOf(t, false)
	b.hand(ended(2)) // the others are asked immediately
	return b
}

// A voter that still considers the ended leader healthy does not know yet. A node that asks it does
// not join that leader, but asks again soon, and then less often.
func TestHealthyAnswerAboutAnEndedRun(t *testing.T) {
	b := loseEnded(t)
	mark := len(b.sent)
	for range 100 {
		q := last[message.LeaderStatusQuery](b)
		b.hand(event(2, chosen(3, 1), message.LeaderStatusQueryResponse{ID: q.ID, Healthy: true}))
		b.run(b.timings.HeartbeatInterval / 20)
	}
	if n := len(b.mail(mark, message.KindJoinClusterRequest)); n > 0 {
		t.Errorf("asked the ended leader for a place")
	}
	if n := len(b.mail(mark, message.KindLeaderStatusQuery)) / 2; n < 6 || n > 25 {
		t.Errorf("asked %d times within 5 intervals", n)
	}
	id := last[message.LeaderStatusQuery](b).ID
	b.hand(event(2, chosen(3, 1), message.LeaderStatusQueryResponse{ID: id, Healthy: true}))
	b.untilSent(b.timings.HeartbeatInterval, message.KindLeaderStatusQuery)
	b.hand(event(2, member.Claim{}, message.LeaderStatusQueryResponse{ID: id}))
	if n := len(b.mail(mark, message.KindProposal)); n == 0 {
		t.Error("the answer to the question before did not count")
	}
}

// A voter of a large cluster asks the seeds only if no election is in progress: all voters would
// ask all seeds at the same instant.
func TestVoterDoesNotAskSeedsDuringAnElection(t *testing.T) {
	b := aFollower(t, 9)
	b.run(b.timings.LeaseTimeout + 1) // until the wait after its start is over
	b.hand(ended(2))
	b.run(b.timings.HeartbeatInterval * 3 / 4)
	b.hand(event(2, member.Claim{}, pre(2, 4)))
	mark := len(b.sent)
	b.run(b.timings.HeartbeatInterval * 3 / 4)
	if n := len(b.mail(mark, message.KindLeaderQuery)); n > 0 {
		t.Errorf("asked the seeds %d times after a granted vote", n)
	}
	b.run(b.timings.HeartbeatInterval / 2)
	if n := len(b.mail(mark, message.KindLeaderQuery)); n == 0 {
		t.Errorf("never asked the seeds\n%s", b)
	}
}

// A voter that granted a proposal does not ask while the other voters may still save.
func TestVoterThatGrantedOutlastsSlowSaves(t *testing.T) {
	b, save := aFollower(t, 5), 700*time.Millisecond
	b.run(b.timings.LeaseTimeout + 1) // until the wait after its start is over
	b.hand(ended(2))
	b.untilSent(time.Second, message.KindLeaderStatusQuery)
	id := last[message.LeaderStatusQuery](b).ID
	b.hand(event(1, member.Claim{}, message.LeaderStatusQueryResponse{ID: id, Save: save}))
	b.hand(event(1, member.Claim{}, pre(1, 4)))
	if took := b.untilSent(time.Minute, message.KindLeaderStatusQuery); took < 4*save {
		t.Errorf("asked again %v after the vote, want at least %v", took, 4*save)
	}
}

// answerThird hands n3 the answers of other nodes to its last question: none has a healthy leader.
func (b *bus) answerThird(from ...int) {
	b.t.Helper()
	id := last[message.LeaderStatusQuery](b).ID
	for _, i := range from {
		in := event(i, member.Claim{}, message.LeaderStatusQueryResponse{ID: id})
		in.To = addr(2)
		b.handTo(2, in)
	}
}

// A slow voter answers all that have asked at one instant. They propose in turn.
func TestVoterProposesInTurnAfterLateAnswers(t *testing.T) {
	b := holding(t, 5, state(5, 3, 0, 1))
	b.start(2)
	b.untilSent(time.Minute, message.KindLeaderStatusQuery)
	mark := len(b.sent)
	b.run(b.timings.HeartbeatInterval / 4)
	b.answerThird(3, 4)
	if n := len(b.mail(mark, message.KindProposal)); n > 0 {
		t.Errorf("proposed immediately")
	}
	b.run(b.timings.HeartbeatInterval / 4)
	if n := len(b.mail(mark, message.KindProposal)); n == 0 {
		t.Errorf("did not propose\n%s", b)
	}
}

// A voter of a large cluster waits while a voter before it asks, but not without end.
func TestVoterYieldsToAVoterBeforeIt(t *testing.T) {
	b := holding(t, 9, state(9, 3, 0, 1))
	b.start(2)
	to := func(in message.Message) message.Message {
		in.To = addr(2)
		return in
	}
	asks := message.LeaderStatusQuery{ID: 7, Version: 3}
	b.untilSent(time.Minute, message.KindLeaderStatusQuery)
	mark := len(b.sent)
	b.handTo(2, to(event(0, member.Claim{}, asks)))
	b.answerThird(3, 4, 5, 6)
	if n := len(b.mail(mark, message.KindProposal)); n > 0 {
		t.Errorf("proposed while a voter before it asks")
	}
	b.run(b.timings.HeartbeatInterval / 2)
	if n := len(b.mail(mark, message.KindProposal)); n == 0 {
		t.Errorf("did not propose afterwards\n%s", b)
	}

	b = holding(t, 9, state(9, 3, 0, 1))
	b.start(2)
	b.untilSent(time.Minute, message.KindLeaderStatusQuery)
	mark = len(b.sent)
	b.handTo(2, to(event(8, member.Claim{}, asks)))
	for range 200 {
		b.handTo(2, to(event(0, member.Claim{}, asks)))
		b.run(b.timings.HeartbeatInterval / 20)
	}
	if n := len(b.mail(mark, message.KindLeaderStatusQuery)) / 8; n < 3 {
		t.Errorf("asked %d times in 10 intervals, while another voter asked all the time", n)
	}
}
