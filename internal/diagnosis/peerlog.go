// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// These are faults of a peer that has not sent a message yet.
var (
	errSilent    = errors.New("no answer")
	errConnected = errors.New("connected, but no message yet")
)

// peerLog records the last answer of each seed, each member and the leader. The error of Start
// contains these answers, and so does the reason why there is no leader.
type peerLog struct {
	self     member.Address
	hopeless chan struct{} // closed when all other seeds have permanently refused this node

	mu     sync.Mutex
	seeds  []*peer // the other seeds, sorted
	others []*peer // the members that are not seeds, sorted
	named  *peer   // the leader of the last claim; nil if it is in seeds or others
	// byAddress contains all peers in seeds, others and named.
	byAddress map[member.Address]*peer
	// seedMismatches contains the peers whose list of seeds differs from that of this node, with the
	// time of their last message.
	seedMismatches map[member.Address]time.Time
	// refused has the seeds whose last answer was a permanent refusal, and the time from which that
	// counts: later than the first refusal if it may be due to an old DNS record.
	refused map[member.Address]time.Time
	gaveUp  bool // hopeless is closed
	// slowSave is the time of a save above which the status of a peer names it.
	slowSave time.Duration
}

// peer records the last answer of one node.
type peer struct {
	address member.Address
	fault   error          // why there is no connection; nil after a message
	failing time.Time      // when the first attempt to connect failed; zero after a connection
	tried   time.Time      // when the last one failed
	at      time.Time      // when the last message arrived
	store   member.StoreID // the store of its sender
	claim   member.Claim   // the claim in the last message
	held    member.Number  // the state that the node last reported
	save    time.Duration  // how long its saves take, as it last reported
	// refusal is the reason why the node refused the last join or vote. refused and refusedAt are the
	// kind and the time of that answer.
	refusal   message.Reason
	refused   message.Kind
	refusedAt time.Time
}

func newSilentPeer(a member.Address) *peer { return &peer{address: a, fault: errSilent} }

func newPeerLog(seeds []member.Address, self member.Address) *peerLog {
	p := &peerLog{
		self:           self,
		hopeless:       make(chan struct{}),
		seedMismatches: map[member.Address]time.Time{},
		refused:        map[member.Address]time.Time{},
	}
	for _, a := range seeds {
		if a != self {
			p.seeds = append(p.seeds, newSilentPeer(a))
		}
	}
	p.indexPeers()
	return p
}

// indexPeers rebuilds byAddress. p.mu must be held.
func (p *peerLog) indexPeers() {
	p.byAddress = make(map[member.Address]*peer, len(p.seeds)+len(p.others)+1)
	for _, one := range p.allPeers() {
		p.byAddress[one.address] = one
	}
}

// setMembers replaces the members that are not seeds.
func (p *peerLog) setMembers(rosters ...member.Roster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var others []*peer
	for _, r := range rosters {
		for _, m := range r {
			one := cmp.Or(p.byAddress[m.Address], newSilentPeer(m.Address))
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

// noteFault records why there is no connection to a peer. It ignores nodes that are not in the log.
func (p *peerLog) noteFault(from member.Address, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.byAddress[from]; one != nil {
		one.fault = err
	}
}

// noteFailedDial records that an attempt to connect to a peer failed.
func (p *peerLog) noteFailedDial(to member.Address) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.byAddress[to]; one != nil {
		one.tried = time.Now()
		if one.failing.IsZero() {
			one.failing = one.tried
		}
	}
}

// isCutOff reports whether attempts to connect to the peer have failed for MissingTimeout. Attempts
// and their reports have pauses of a minute each, so without one for longer there are none.
func (p *peer) isCutOff() bool {
	return !p.failing.IsZero() && time.Since(p.failing) >= MissingTimeout &&
		time.Since(p.tried) < 2*faultTimeout
}

// noteRefusal records that a peer has permanently refused this node. The transport repeats a
// refusal that lasts every minute.
func (p *peerLog) noteRefusal(from member.Address, err error) {
	p.noteFault(from, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.seeds, func(one *peer) bool { return one.address == from }) {
		return
	}
	now := time.Now()
	counts := now.Add(refusalWait(from, err))
	if earlier, again := p.refused[from]; !again || counts.Before(earlier) {
		p.refused[from] = counts
	}
	for _, at := range p.refused {
		if at.After(now) {
			return
		}
	}
	if len(p.refused) == len(p.seeds) && !p.gaveUp {
		p.gaveUp = true
		close(p.hopeless)
	}
}

// noteConnected records that a greeting was admitted, which cancels an earlier refusal.
func (p *peerLog) noteConnected(from member.Address) {
	p.noteFault(from, errConnected)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.refused, from)
	if one := p.byAddress[from]; one != nil {
		one.failing = time.Time{}
	}
}

// noteMessage records what a message reveals about its sender.
func (p *peerLog) noteMessage(m message.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, differs := p.seedMismatches[m.From.Address]; differs {
		p.seedMismatches[m.From.Address] = time.Now()
	}
	leader := m.Claim.Leader
	if !leader.IsZero() && leader != p.self && p.byAddress[leader] == nil {
		p.named = newSilentPeer(leader)
		p.indexPeers()
	}
	one := p.byAddress[m.From.Address]
	if one == nil {
		return
	}
	one.fault, one.at, one.store, one.claim = nil, time.Now(), m.From.StoreID, m.Claim
	switch b := m.Body.(type) {
	case message.LeaderQuery:
		one.held = b.Held.Number
	case message.LeaderResponse:
		one.held = b.Held
	case message.LeaderStatusQueryResponse:
		one.held, one.save = b.Held, b.Save
	case message.LeaderKeepAlive:
		one.save = b.Save
	case message.JoinClusterResponse:
		one.noteRefusal(b.Reason, message.KindJoinClusterResponse)
	case message.Vote:
		one.noteRefusal(b.Reason, message.KindVote)
	}
}

// noteRefusal records the answer to a join or a proposal. The reason is zero if the answer was
// positive.
func (p *peer) noteRefusal(why message.Reason, in message.Kind) {
	p.refusal, p.refused, p.refusedAt = why, in, p.at
}

// allPeers returns all peers. p.mu must be held.
func (p *peerLog) allPeers() []*peer {
	list := slices.Concat(p.seeds, p.others)
	if p.named != nil {
		list = append(list, p.named)
	}
	return list
}

// Answer is the last answer of a node.
type Answer struct {
	From member.Address
	Err  error
}

// listAnswers returns the last answer of each peer.
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
			err = fmt.Errorf("%w; it has a different list of seeds", err)
		}
		list = append(list, Answer{From: one.address, Err: err})
	}
	return list
}

// peerStatus describes a peer in a diagnosis.
type peerStatus struct {
	address member.Address
	store   member.StoreID // of its last message
	reached bool           // a message arrived within the timeout
	holds   bool           // the node is reached and reported a state of a cluster
	text    string         // its last answer, or why there is no answer
	cut     bool           // attempts to connect have failed for MissingTimeout
}

// String returns "address (text)".
func (s peerStatus) String() string {
	return fmt.Sprintf("%s (%s)", addressText(s.address), s.text)
}

// listStatuses returns the status of each peer; held is the state of this node.
func (p *peerLog) listStatuses(
	held member.State, timeout time.Duration,
) map[member.Address]peerStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := map[member.Address]peerStatus{}
	for _, one := range p.allPeers() {
		s := peerStatus{address: one.address, store: one.store, cut: one.isCutOff()}
		switch {
		case one.fault != nil:
			s.text = faultText(one.fault)
			at, _ := errors.AsType[*net.OpError](one.fault)
			if s.text == errSilent.Error() && at != nil && at.Addr != nil &&
				at.Addr.String() != one.address.String() { // a name that may lead to another host
				s.text += " at " + at.Addr.String()
			}
		case time.Since(one.at) > timeout:
			s.text = "no longer answers"
		default:
			s.reached, s.holds = true, !one.held.IsZero()
			s.text = one.describeLast(p.self, held)
			if one.save > p.slowSave {
				s.text += fmt.Sprintf(", its saves take %v", one.save.Round(time.Millisecond))
			}
		}
		list[one.address] = s
	}
	return list
}
