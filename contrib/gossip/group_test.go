// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/lowest"
)

// lone returns a group of node m, which knows the given members but has no network.
func lone(others ...string) *group {
	n := &Node{
		name: "m", members: map[string]memberlist.Node{}, lost: map[string]lost{},
		groups: map[string]*group{},
	}
	for _, name := range append(others, "m") {
		events{n}.NotifyJoin(&memberlist.Node{Name: name, Addr: net.IPv4(127, 0, 0, 1), Port: 1})
	}
	g := &group{node: n, name: "g", timing: election.DefaultTiming(), heard: map[string]mark{}}
	n.groups["g"] = g
	return g
}

func says(kind lowest.Kind, member string, seq uint64) groupMessage {
	m := lowest.Message{Kind: kind, Member: member, Run: 1, Seq: seq}
	return groupMessage{group: "g", Message: m}
}

// queued takes and returns the waiting messages.
func (g *group) queued(t *testing.T) (all []string) {
	t.Helper()
	for len(g.node.queue.waiting) > 0 {
		packet := packMessages("m", g.node.queue.take(time.Now(), packetBytes/2, 1)...)
		_, messages, err := unpackMessages(packet)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range messages {
			all = append(all, fmt.Sprint(l.Kind, l.Member, l.Seq))
		}
	}
	return all
}

// A new message is processed once and forwarded. Messages are dropped if they are old, were delayed
// for long, or come from this member or an unknown member.
func TestWhatIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lone("a", "b")
		stale, earlier := says(lowest.Declaration, "a", 9), says(lowest.Declaration, "a", 9)
		stale.Age, earlier.Run = alive, 0
		tell := func(l groupMessage) groupMessage { l.relayed = true; return l }
		for _, c := range []struct {
			what    string
			sender  string
			message groupMessage
			want    string // the member to which it is attributed; "" if dropped
		}{
			{"new", "b", says(lowest.Declaration, "a", 2), "a"},
			{"the same again", "a", says(lowest.Declaration, "a", 2), ""},
			{"older", "b", says(lowest.Declaration, "a", 1), ""},
			{"of an earlier run", "b", earlier, ""},
			{"too old", "b", stale, ""},
			{"of this member", "b", says(lowest.Declaration, "m", 1), ""},
			{"sent by this member", "m", says(lowest.Declaration, "a", 9), ""},
			{"a leader that is no member", "b", says(lowest.Declaration, "x", 1), "b"},
			{"by itself", "x", says(lowest.Declaration, "x", 1), ""},
			{"by another of no member", "y", says(lowest.Declaration, "x", 1), ""},
			{"a proposal of no member", "b", says(lowest.Proposal, "x", 2), ""},
			{"relayed", "b", tell(says(lowest.Declaration, "x", 3)), "b"},
			{"relayed, and heard before", "b", tell(says(lowest.Declaration, "a", 2)), "b"},
			{"relayed, and something newer was heard", "b", tell(says(lowest.Declaration, "a", 1)), ""},
			{"newer", "b", says(lowest.Resignation, "a", 4), "a"},
		} {
			if got := g.acceptMessage(time.Now(), c.sender, c.message); got != c.want {
				t.Errorf("%s: taken from %q, want %q", c.what, got, c.want)
			}
		}
		if got := g.queued(t); len(got) != 1 || got[0] != "3a4" {
			t.Errorf("queued messages %v, want only the newest of a member", got)
		}
	})
}

// Of the proposals within a Sample, only the lowest is forwarded.
func TestLowestProposalIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lone("a", "b", "c")
		for i, c := range []struct {
			member string
			age    time.Duration
			want   string // what waits afterwards
		}{
			{"b", 0, "[1b1]"},
			{"c", 0, "[]"},
			{"a", 0, "[1a3]"},
			{"b", 0, "[]"},
			{"a", 0, "[1a5]"}, // it proposes again
			{"c", sample + time.Millisecond, "[]"},
		} {
			l := says(lowest.Proposal, c.member, uint64(i+1))
			l.Age = c.age
			if g.acceptMessage(time.Now(), "a", l) == "" {
				t.Errorf("%d: the message from %s was not received", i, c.member)
			}
			if got := fmt.Sprint(g.queued(t)); got != c.want {
				t.Errorf("%d: %s is queued, want %s", i, got, c.want)
			}
		}
		<-time.After(sample)
		g.acceptMessage(time.Now(), "a", says(lowest.Proposal, "c", 9))
		if fmt.Sprint(g.queued(t)) != "[1c9]" {
			t.Error("the proposal of a higher member is not passed on after one Sample")
		}
	})
}

// A declaration of this member is sent to all members. A relayed declaration is sent to only one
// member.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lone()
		g.Send("gone", says(lowest.Resignation, "m", 1).Message)
		g.Send("gone", says(lowest.Declaration, "a", 2).Message)
		if got := g.queued(t); len(got) > 0 {
			t.Errorf("%v is sent to all", got)
		}
		g.Send("gone", says(lowest.Declaration, "m", 3).Message)
		if got := fmt.Sprint(g.queued(t)); got != "[2m3]" {
			t.Errorf("%s is sent to all, want the declaration", got)
		}
	})
}

// The number of members bounds the memory, whatever messages arrive.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := lone()
		n, e := g.node, events{g.node}
		for i := range 3 * maxLost {
			m := &memberlist.Node{Name: name(i), Addr: net.IPv4(10, 0, byte(i>>8), byte(i)), Port: 1}
			if err := e.NotifyAlive(m); err != nil {
				t.Fatal(err)
			}
			e.NotifyJoin(m)
			if g.acceptMessage(time.Now(), m.Name, says(lowest.Declaration, m.Name, 1)) == "" {
				t.Fatalf("%s is not heard", m.Name)
			}
			<-time.After(time.Millisecond)
			e.NotifyLeave(m)
			if len(g.heard) > maxGone+2*len(n.members) || len(n.queue.waiting) > maxQueued {
				t.Fatalf("%d heard, %d queued", len(g.heard), len(n.queue.waiting))
			}
		}
		if _, last := n.lost[name(3*maxLost-1)]; len(n.lost) != maxLost || !last {
			t.Errorf("%d lost members, the newest among them: %v", len(n.lost), last)
		}
		<-time.After(forget + time.Second)
		n.addLost(time.Now(), "last", address(1))
		if len(n.lost) != 1 {
			t.Errorf("still searching for %d members after %v", len(n.lost), forget)
		}
	})
}

// Members without a valid name and address, and too many members, are refused.
func TestMembersAreRefused(t *testing.T) {
	g := lone()
	e, ip := events{g.node}, net.IPv4(127, 0, 0, 1)
	for _, m := range []memberlist.Node{
		{Name: "", Addr: ip, Port: 1}, {Name: "a\nb", Addr: ip, Port: 1}, {Name: "a", Port: 1},
		{Name: "a", Addr: ip}, {Name: "a", Addr: net.IP{1}, Port: 1},
	} {
		if e.NotifyAlive(&m) == nil {
			t.Errorf("%+v is taken", m)
		}
	}
	for i := range MaxMembers {
		g.node.members[fmt.Sprint(i)] = memberlist.Node{}
	}
	if e.NotifyAlive(&memberlist.Node{Name: "a", Addr: ip, Port: 1}) == nil {
		t.Errorf("there are more than %d members", MaxMembers)
	}
	if err := e.NotifyAlive(&memberlist.Node{Name: "1", Addr: ip, Port: 1}); err != nil {
		t.Errorf("a known member: %v", err)
	}
}

// Messages to a group that is not open, and invalid packets, are dropped.
func TestForeignLetters(t *testing.T) {
	g := lone("a")
	var got []lowest.Message
	g.deliver = func(_ string, m lowest.Message) { got = append(got, m) }
	foreign, ours := says(lowest.Declaration, "a", 1), says(lowest.Declaration, "a", 2)
	foreign.group = "other"
	d := delegate{g.node}
	d.NotifyMsg([]byte("no message"))
	d.NotifyMsg(packMessages("a", foreign.bytes(), ours.bytes()))
	if len(got) != 1 || got[0] != ours.Message {
		t.Errorf("delivered %+v, want only %+v", got, ours.Message)
	}
	if len(g.node.groups) != 1 {
		t.Error("a message added a group that was never opened")
	}
}
