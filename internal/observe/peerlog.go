// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// The faults of a peer before its first message.
var (
	errSilent    = errors.New("no answer")
	errConnected = errors.New("connected, but nothing came yet")
)

// peerLog keeps what was last heard from each node that this one asks or needs. It serves
// the error of a Start that gives up, and the reason why there is no leader.
type peerLog struct {
	self     member.Address
	hopeless chan struct{} // closed when all seeds have refused

	mu     sync.Mutex
	seeds  []*peer // the other seeds, in their order
	others []*peer // members that are not seeds, in their order
	named  *peer   // the leader last named, if it is neither; else nil
	// byAddress has all of them.
	byAddress map[member.Address]*peer
	// seedMismatches has the peers that greeted with other seeds than this node has, and
	// when each was last heard.
	seedMismatches map[member.Address]time.Time
	// refused has the seeds that last answered that they cannot be in one cluster with
	// this node.
	refused map[member.Address]bool
	gaveUp  bool // hopeless is closed
}

// peer is what was last heard from one node.
type peer struct {
	address member.Address
	fault   error // of the connection; nil once a message came on it
	at      time.Time
	claim   member.Claim  // in the header of the last message
	held    member.Number // as the node last showed
	// refusal is the reason of the last refused join or vote; zero for none.
	refusal   message.Reason
	refused   message.Kind
	refusedAt time.Time
	// run is the latest run that greeted, 0 before the first. warned is when the address
	// was last warned of as one of two processes.
	run    uint64
	warned time.Time
}

func newPeer(a member.Address) *peer { return &peer{address: a, fault: errSilent} }

func newPeerLog(seeds []member.Address, self member.Address) *peerLog {
	p := &peerLog{
		self:           self,
		hopeless:       make(chan struct{}),
		seedMismatches: map[member.Address]time.Time{},
		refused:        map[member.Address]bool{},
	}
	for _, a := range seeds {
		if a != self {
			p.seeds = append(p.seeds, newPeer(a))
		}
	}
	p.indexPeers()
	return p
}

// indexPeers makes the peers known by address. p.mu must be held.
func (p *peerLog) indexPeers() {
	p.byAddress = make(map[member.Address]*peer, len(p.seeds)+len(p.others)+1)
	for _, one := range p.allPeers() {
		p.byAddress[one.address] = one
	}
}

// setMembers replaces the members that this node deals with besides the seeds.
func (p *peerLog) setMembers(rosters ...member.Roster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var others []*peer
	for _, r := range rosters {
		for _, m := range r {
			one := cmp.Or(p.byAddress[m.Address], newPeer(m.Address))
			if m.Address != p.self && !slices.Contains(p.seeds, one) {
				others = append(others, one)
				p.byAddress[m.Address] = one
			}
		}
	}
	slices.SortFunc(others, func(a, b *peer) int { return a.address.Compare(b.address) })
	p.others = slices.Compact(others)
	if slices.Contains(p.others, p.named) {
		p.named = nil
	}
	p.indexPeers()
}

// noteFault notes why there is no connection to a peer. Nodes that this one does not deal
// with are ignored.
func (p *peerLog) noteFault(from member.Address, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.byAddress[from]; one != nil {
		one.fault = err
	}
}

// noteRefusal notes that a peer and this node can never be in one cluster.
func (p *peerLog) noteRefusal(from member.Address, err error) {
	p.noteFault(from, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.seeds {
		if one.address == from && !p.refused[from] {
			p.refused[from] = true
			if len(p.refused) == len(p.seeds) && !p.gaveUp {
				p.gaveUp = true
				close(p.hopeless)
			}
		}
	}
}

// noteConnected notes that a greet was admitted, so that an earlier refusal does not count.
func (p *peerLog) noteConnected(from member.Address) {
	p.noteFault(from, errConnected)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.refused, from)
}

// noteMessage notes what a message shows of its sender.
func (p *peerLog) noteMessage(m message.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, differs := p.seedMismatches[m.From.Address]; differs {
		p.seedMismatches[m.From.Address] = time.Now()
	}
	leader := m.Claim.Leader
	if !leader.IsZero() && leader != p.self && p.byAddress[leader] == nil {
		p.named = newPeer(leader)
		p.indexPeers()
	}
	one := p.byAddress[m.From.Address]
	if one == nil {
		return
	}
	one.fault, one.at, one.claim = nil, time.Now(), m.Claim
	switch b := m.Body.(type) {
	case message.LeaderQuery:
		one.held = b.Held.Number
	case message.LeaderResponse:
		one.held = b.Held
	case message.LeaderStatusQueryResponse:
		one.held = b.Held
	case message.JoinClusterResponse:
		one.noteRefusal(b.Reason, message.KindJoinClusterResponse)
	case message.Vote:
		one.noteRefusal(b.Reason, message.KindVote)
	}
}

// noteRefusal notes the answer to a join or a proposal; the zero Reason is a yes.
func (p *peer) noteRefusal(why message.Reason, in message.Kind) {
	p.refusal, p.refused, p.refusedAt = why, in, p.at
}

// allPeers lists the peers. p.mu must be held.
func (p *peerLog) allPeers() []*peer {
	list := slices.Concat(p.seeds, p.others)
	if p.named != nil {
		list = append(list, p.named)
	}
	return list
}

// Answer is the last that was heard from a node while joining.
type Answer struct {
	From member.Address
	Err  error
}

// listAnswers lists what was last heard from each peer.
func (p *peerLog) listAnswers() []Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Answer
	for _, one := range p.allPeers() {
		err := one.fault
		if err == nil {
			err = errors.New(one.describeLast(p.self, member.State{}))
		}
		if _, differs := p.seedMismatches[one.address]; differs {
			err = fmt.Errorf("%w; it has other seeds", err)
		}
		list = append(list, Answer{From: one.address, Err: err})
	}
	return list
}

// peerStatus is a peer as a diagnosis shows it.
type peerStatus struct {
	address member.Address
	reached bool   // a message came from it within the timeout
	text    string // its last answer, or why nothing comes
}

// String is "address (text)".
func (s peerStatus) String() string {
	return fmt.Sprintf("%s (%s)", addressText(s.address), s.text)
}

// listStatuses returns the status of each peer; held is what this node holds.
func (p *peerLog) listStatuses(
	held member.State, timeout time.Duration,
) map[member.Address]peerStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := map[member.Address]peerStatus{}
	for _, one := range p.allPeers() {
		s := peerStatus{address: one.address}
		switch {
		case one.fault != nil:
			s.text = faultText(one.fault)
		case time.Since(one.at) > timeout:
			s.text = "does not answer any more"
		default:
			s.reached, s.text = true, one.describeLast(p.self, held)
		}
		list[one.address] = s
	}
	return list
}
