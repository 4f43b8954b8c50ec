// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

var errBoom = errors.New("boom")

func at(port uint16, status member.Status) member.Member {
	a := member.Address{Host: "127.0.0.1", Port: port}
	return member.Member{
		Identity: member.Identity{Address: a, Incarnation: 1},
		Name:     fmt.Sprint("n", port),
		Status:   status,
	}
}

func addresses(ports ...uint16) []member.Address {
	var list []member.Address
	for _, p := range ports {
		list = append(list, at(p, 0).Address)
	}
	return list
}

func viewOf(version uint64, leader uint16, quorate bool, members ...member.Member) member.View {
	v := member.View{Version: version, Quorate: quorate, Members: members}
	if leader != 0 {
		v.Leader = at(leader, 0).Address
	}
	return v
}

func (s *peerLog) isHopeless() bool {
	select {
	case <-s.hopeless:
		return true
	default:
		return false
	}
}

// TestStrangersEndNoStart checks that a failed handshake of an incoming connection is not
// attributed to the seed with its source address. Anyone can send a packet with a forged source.
func TestStrangersEndNoStart(t *testing.T) {
	seed := addresses(7002)
	for what, hopeless := range map[mesh.ReportKind]bool{
		mesh.ReportHandshake: false, mesh.ReportUnreachable: true,
	} {
		o := New(Config{Log: slog.New(slog.DiscardHandler), Seeds: seed, Self: at(7001, 0).Address})
		o.ObserveConnection(mesh.Report{Kind: what, Peer: seed[0], Err: transport.ErrCertificate})
		if got := o.peers.isHopeless(); got != hopeless {
			t.Errorf("%v of the only other seed: got hopeless %v, want %v", what, got, hopeless)
		}
	}
}

// TestHopelessWhenEverySeedRefused checks that Hopeless is closed when every seed has refused, and
// no earlier. A seed that refuses twice counts once, and an accepted join does not count.
func TestHopelessWhenEverySeedRefused(t *testing.T) {
	seeds := addresses(1, 2, 3)
	s := newPeerLog(seeds, seeds[0])
	s.noteRefusal(seeds[1], errBoom)
	s.noteRefusal(seeds[1], errBoom)
	s.noteRefusal(addresses(9)[0], errBoom)
	if s.isHopeless() {
		t.Error("one of two other seeds refused: got hopeless")
	}
	s.noteRefusal(seeds[2], errBoom)
	if !s.isHopeless() {
		t.Error("both other seeds refused: got hope")
	}
	s.noteRefusal(seeds[2], errBoom)
}

// TestNamesOfOtherNodesLag checks that names that lead to other nodes make a start hopeless only
// after nameTimeout, and addresses immediately.
func TestNamesOfOtherNodesLag(t *testing.T) {
	other := &transport.ConfigMismatchError{Field: "Advertise", Ours: "db-2:1", Theirs: "db-3:1"}
	size := &transport.ConfigMismatchError{Field: "Size", Ours: "3", Theirs: "5"}
	for _, test := range []struct {
		host string
		err  error
		lags bool
	}{
		{"db-2", other, true},
		{"db-2", errors.Join(other, other), true},
		{"db-2", mesh.ErrSelf, true},
		{"db-2", &mesh.IdentityError{}, true},
		{"db-2", errors.Join(other, size), false},
		{"db-2", transport.ErrCertificate, false},
		{"10.0.0.2", other, false},
		{"localhost", mesh.ErrSelf, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			seed := member.Address{Host: test.host, Port: 1}
			s := newPeerLog([]member.Address{seed}, addresses(1)[0])
			s.noteRefusal(seed, test.err)
			if got := s.isHopeless(); got == test.lags {
				t.Errorf("%s, %v: got hopeless %v, want %v", test.host, test.err, got, !test.lags)
			}
			time.Sleep(nameTimeout)
			if s.noteRefusal(seed, test.err); !s.isHopeless() {
				t.Errorf("%s, %v: got hope after %v", test.host, test.err, nameTimeout)
			}
		})
	}
}

func TestALoneSeedIsNeverHopeless(t *testing.T) {
	s := newPeerLog(addresses(1), addresses(1)[0])
	s.noteRefusal(addresses(9)[0], errBoom)
	if s.isHopeless() {
		t.Error("no other seed: got hopeless")
	}
}

// TestPeersAreSeedsMembersAndLeader checks that each seed, each member of the state and the leader
// of the last claim is listed once, with its last answer.
func TestPeersAreSeedsMembersAndLeader(t *testing.T) {
	s := newPeerLog(addresses(1, 2), addresses(1)[0])
	names := func() (ports []uint16) {
		for _, a := range s.listAnswers() {
			ports = append(ports, a.From.Port)
		}
		return ports
	}
	s.noteMessage(message.Message{
		From: at(2, 0).Identity, Claim: member.Claim{Leader: addresses(8)[0]},
		Body: message.LeaderResponse{},
	})
	s.noteFault(addresses(8)[0], errBoom)
	roster := member.Roster{at(1, 0), at(2, 0), at(5, 0)}
	s.setMembers(roster, roster, member.Roster{at(4, 0)})
	if got, want := names(), []uint16{2, 4, 5, 8}; !slices.Equal(got, want) {
		t.Errorf("seed 2, members 1, 2, 4, 5, leader 8: asked %d, want %d", got, want)
	}
	s.setMembers(member.Roster{at(8, 0)})
	got := s.listAnswers()
	if want := []uint16{2, 8}; !slices.Equal(names(), want) || got[1].Err != errBoom {
		t.Errorf("members 8: asked %v, want %d and what was heard of 8", got, want)
	}
	s.noteMessage(message.Message{
		From: at(2, 0).Identity, Claim: member.Claim{Leader: addresses(1)[0]},
		Body: message.LeaderResponse{},
	})
	s.setMembers()
	if got, want := names(), []uint16{2}; !slices.Equal(got, want) {
		t.Errorf("no members, led by this node: asked %d, want %d", got, want)
	}
}

// TestWhatMessagesSay checks the description of everything that a node can report about itself.
func TestWhatMessagesSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		self, two, three := addresses(1)[0], addresses(2)[0], addresses(3)[0]
		held := member.State{Number: member.Number{Version: 5}, Leader: three}
		chosen := func(version uint64, a member.Address) member.Claim {
			return member.Claim{Chosen: true, Version: version, Leader: a}
		}
		for _, c := range []struct {
			claim member.Claim
			body  message.Body
			want  string
		}{
			{member.Claim{}, message.LeaderResponse{}, "knows no leader"},
			{member.Claim{}, message.LeaderQuery{Held: member.State{
				Number: member.Number{Version: 3, Revision: 2},
			}}, "knows no leader, holds version 3.2"},
			{chosen(7, two), message.LeaderResponse{}, "leads version 7"},
			{chosen(7, three), message.LeaderResponse{}, "follows 127.0.0.1:3, which leads version 7"},
			{chosen(7, self), message.LeaderKeepAlive{}, "follows this node"},
			{member.Claim{Version: 1, Leader: two}, message.SeedKeepAlive{}, "leads provisionally"},
			{member.Claim{Version: 1, Leader: three}, message.SeedKeepAlive{},
				"follows 127.0.0.1:3, which leads provisionally"},
			{chosen(4, two), message.LeaderResponse{}, "leads version 4, but this node holds " +
				"version 5.0 of 127.0.0.1:3: was its data directory restored from a copy? Keep that " +
				"of this node"},
			{chosen(5, two), message.LeaderResponse{}, "leads version 5, but this node holds " +
				"version 5.0 of 127.0.0.1:3: was its data directory restored from a copy? Keep that " +
				"of this node"},
			{chosen(5, three), message.LeaderResponse{}, "follows 127.0.0.1:3, which leads version 5"},
			{chosen(7, two), message.JoinClusterResponse{Reason: message.ReasonHoldsState},
				"join refused: holds state, this node holds the state of an earlier cluster, " +
					"but that leader has no state yet"},
			{chosen(7, two), message.JoinClusterResponse{Reason: message.ReasonClusterFull},
				"join refused: cluster full, all seats are taken, or kept for members that left (see the log " +
					"of the leader)"},
			{chosen(7, two), message.JoinClusterResponse{Reason: message.ReasonVersionJump},
				"join refused: version jump, this node takes part only above far higher tokens, as after " +
					"athena recover: stop all nodes, and run it on each with the same --tokens-above"},
			{member.Claim{Version: 1, Leader: two},
				message.JoinClusterResponse{Reason: message.ReasonClusterFull},
				"join refused: cluster full: the free seats are reserved for seeds"},
			{chosen(7, two), message.JoinClusterResponse{Accepted: true}, "leads version 7"},
			{member.Claim{}, message.Vote{Reason: message.ReasonOtherSeeds}, "votes no: other seeds"},
			{member.Claim{}, message.Vote{Granted: true}, "knows no leader"},
		} {
			s := newPeerLog([]member.Address{self, two}, self)
			s.noteMessage(message.Message{From: at(2, 0).Identity, Claim: c.claim, Body: c.body})
			got := s.listStatuses(held, time.Second)[two]
			if got.text != c.want || !got.reached {
				t.Errorf("%T under %v: got %q, reached %t; want %q",
					c.body, c.claim, got.text, got.reached, c.want)
			}
			time.Sleep(time.Second + 1)
			got = s.listStatuses(held, time.Second)[two]
			if got.reached || got.text != "no longer answers" {
				t.Errorf("%T a second ago: got %q, reached %t", c.body, got.text, got.reached)
			}
		}
	})
}

// TestEveryRefusalOfAJoinHasWords checks that every refusal of a join has an explanation.
func TestEveryRefusalOfAJoinHasWords(t *testing.T) {
	for reason := message.ReasonNotLeader; reason <= message.ReasonQuorumAtStake; reason++ {
		if refusalTexts[reason] == "" {
			t.Errorf("a join refused for %q has no words for people", reason)
		}
	}
}

// TestFaultText checks that the reason for a missing connection is short and the same each time.
func TestFaultText(t *testing.T) {
	mismatch := func(field, ours, theirs string) error {
		return &transport.ConfigMismatchError{Field: field, Ours: ours, Theirs: theirs}
	}
	remote := func(code transport.Code, reason string) error {
		return fmt.Errorf("quicnet: dial x: %w",
			&transport.CloseError{Code: code, Reason: reason, Remote: true})
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errSilent, "no answer"},
		{fmt.Errorf("%w from x", transport.ErrNoAnswer), "no answer"},
		{fmt.Errorf("%w (no such host)", transport.ErrUnknownHost), "unknown host (no such host)"},
		{fmt.Errorf("dial: %w", &transport.CertificateError{Why: "it\nis late"}),
			"certificate refused: it; is late"},
		{transport.ErrNotNode, "not an Athena node"},
		{fmt.Errorf("quicnet: dial: %w", os.NewSyscallError("sendmsg", syscall.EPERM)),
			"the firewall of this host lets no packets out to it"},
		{errors.Join(mismatch("Size", "3", "5"), mismatch("TTLTimeout", "1s", "2s")),
			"differs in size (3 here, 5 there), TTL timeout (1s here, 2s there)"},
		{errors.Join(mismatch("Size", "1", "2"), mismatch("Cluster", "a", "b"),
			mismatch("Protocol", "c", "d"), mismatch("TTLTimeout", "e", "f"),
			mismatch("RetryInterval", "g", "h")),
			"differs in size (1 here, 2 there), cluster (a here, b there), " +
				"protocol (c here, d there) and 2 more"},
		{fmt.Errorf("greet: %w", mismatch("HeartbeatInterval", "1s", "\x1b[2J")),
			`differs in heartbeat interval (1s here, "\x1b[2J" there)`},
		{remote(transport.CodeRefused, "no\nway"), `refuses this node: "no\nway"`},
		{remote(transport.CodeEarlierRun, ""),
			"knows a later run of this store: two processes have copies of it"},
		{remote(transport.CodeAddressTaken, ""),
			"another process answers at the address that this node advertises"},
		{remote(transport.CodeUnproved, ""), "does not reach this node at the address that this node " +
			"advertises: correct the address, or the name in DNS, or open the port"},
		{remote(transport.CodeAddressHeld, ""), "knows another store at the address that this node " +
			"advertises: it waits until that one is silent and this node answers there"},
		{remote(transport.CodeClosed, "the node goes"), "is shutting down"},
		{remote(transport.CodeBusy, "too many"),
			"quicnet: dial x: transport: the peer closed the connection (busy): too many"},
	} {
		if got := faultText(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}

// TestSilentNameHasAnAddress checks that a peer that does not answer is shown with the address to
// which its name leads here: the name may be wrong in DNS.
func TestSilentNameHasAnAddress(t *testing.T) {
	silent := &net.OpError{Op: "dial", Net: "udp", Err: transport.ErrNoAnswer,
		Addr: &net.UDPAddr{IP: net.IPv4(10, 77, 2, 99), Port: 7000}}
	for host, want := range map[string]string{
		"n3":         "n3:7000 (no answer at 10.77.2.99:7000)",
		"10.77.2.99": "10.77.2.99:7000 (no answer)",
	} {
		a := member.Address{Host: host, Port: 7000}
		p := newPeerLog([]member.Address{a}, member.Address{})
		p.noteFault(a, silent)
		if got := p.listStatuses(member.State{}, time.Second)[a].String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
