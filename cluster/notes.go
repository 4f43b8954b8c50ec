// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// What there is to say of a node before a message came from it.
var (
	errSilent    = errors.New("no answer")
	errConnected = errors.New("connected, but nothing came yet")
)

// notes keeps what was last heard from each node that this one asks or needs: for
// the error of a Start that gives up, and for who wants to know why there is no
// leader. It decides nothing.
type notes struct {
	mu     sync.Mutex
	self   member.Address
	seeds  []*heard // the other seeds, in their order
	others []*heard // members that are no seeds, in their order
	named  *heard   // the leader last named, where it is neither; nil for none
	by     map[member.Address]*heard
	// odd are the peers that greeted with other seeds than this node has, and when
	// each was heard last.
	odd map[member.Address]time.Time
	// refused counts the seeds whose last answer was that they cannot belong
	// to one cluster with this node.
	refused  map[member.Address]bool
	hopeless chan struct{} // closed when all seeds refused
	gaveUp   bool          // it is closed
}

// heard is the last of one node.
type heard struct {
	addr  member.Address
	fault error // of the connection; nil since something came on it
	at    time.Time
	claim member.Claim  // in the header of the last message
	held  member.Number // as it last showed
	// no is the reason of its last refusal, of a join or a vote; zero for none.
	no   message.Reason
	noTo message.Kind
	noAt time.Time
	// run is the latest in which it greeted, 0 before the first, and taken when it
	// was warned that two processes may have its address.
	run   uint64
	taken time.Time
}

func newHeard(a member.Address) *heard { return &heard{addr: a, fault: errSilent} }

func (s *notes) start(seeds []member.Address, self member.Address) {
	s.self = self
	s.odd = map[member.Address]time.Time{}
	s.refused = map[member.Address]bool{}
	s.hopeless = make(chan struct{})
	for _, a := range seeds {
		if a != self {
			s.seeds = append(s.seeds, newHeard(a))
		}
	}
	s.index()
}

// index makes the notes findable by address. They are locked.
func (s *notes) index() {
	s.by = make(map[member.Address]*heard, len(s.seeds)+len(s.others)+1)
	for _, h := range s.all() {
		s.by[h.addr] = h
	}
}

// needs says which members this node has to do with, besides the seeds.
func (s *notes) needs(rosters ...member.Roster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var others []*heard
	for _, r := range rosters {
		for _, m := range r {
			h := cmp.Or(s.by[m.Address], newHeard(m.Address))
			if m.Address != s.self && !slices.Contains(s.seeds, h) {
				others = append(others, h)
				s.by[m.Address] = h
			}
		}
	}
	slices.SortFunc(others, func(a, b *heard) int { return a.addr.Compare(b.addr) })
	s.others = slices.Compact(others)
	if slices.Contains(s.others, s.named) {
		s.named = nil
	}
	s.index()
}

// note replaces what was last heard from a node that was asked; of others
// nothing is kept.
func (s *notes) note(from member.Address, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.by[from]; h != nil {
		h.fault = err
	}
}

// refusal notes that a seed and this node can never be in one cluster.
func (s *notes) refusal(from member.Address, err error) {
	s.note(from, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.seeds {
		if h.addr == from && !s.refused[from] {
			s.refused[from] = true
			if len(s.refused) == len(s.seeds) && !s.gaveUp {
				s.gaveUp = true
				close(s.hopeless)
			}
		}
	}
}

// connected notes that a greet was admitted: a refusal before it is history.
func (s *notes) connected(from member.Address) {
	s.note(from, errConnected)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refused, from)
}

// message notes what a message shows of its sender.
func (s *notes) message(m message.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, odd := s.odd[m.From.Address]; odd {
		s.odd[m.From.Address] = time.Now()
	}
	leader := m.Claim.Leader
	if !leader.IsZero() && leader != s.self && s.by[leader] == nil {
		s.named = newHeard(leader)
		s.index()
	}
	h := s.by[m.From.Address]
	if h == nil {
		return
	}
	h.fault, h.at, h.claim = nil, time.Now(), m.Claim
	switch b := m.Body.(type) {
	case message.LeaderQuery:
		h.held = b.Held.Number
	case message.LeaderResponse:
		h.held = b.Held
	case message.LeaderStatusQueryResponse:
		h.held = b.Held
	case message.JoinClusterResponse:
		h.no, h.noTo, h.noAt = b.Reason, message.KindJoinClusterResponse, h.at
	case message.Vote:
		h.no, h.noTo, h.noAt = b.Reason, message.KindVote, h.at
	}
}

// all lists everybody who is asked. The notes are locked.
func (s *notes) all() []*heard {
	list := slices.Concat(s.seeds, s.others)
	if s.named != nil {
		list = append(list, s.named)
	}
	return list
}

// answers lists what was heard.
func (s *notes) answers() []Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Answer
	for _, h := range s.all() {
		err := h.fault
		if err == nil {
			err = errors.New(h.says(s.self, member.State{}))
		}
		if _, odd := s.odd[h.addr]; odd {
			err = fmt.Errorf("%w; it has other seeds", err)
		}
		list = append(list, Answer{From: h.addr, Err: err})
	}
	return list
}

// told is one node in the eyes of people.
type told struct {
	addr    member.Address
	reached bool   // something came from it within the time given
	text    string // the last that it said, or why nothing comes
}

// String is "address (what it said)".
func (t told) String() string { return fmt.Sprintf("%s (%s)", shown(t.addr), t.text) }

// tell lists everybody who is asked, by address; held is what this node holds.
func (s *notes) tell(held member.State, within time.Duration) map[member.Address]told {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := map[member.Address]told{}
	for _, h := range s.all() {
		t := told{addr: h.addr}
		switch {
		case h.fault != nil:
			t.text = brief(h.fault)
		case time.Since(h.at) > within:
			t.text = "does not answer any more"
		default:
			t.reached, t.text = true, h.says(s.self, held)
		}
		list[h.addr] = t
	}
	return list
}

// refusalFresh is how long a refusal counts as what a node said last.
const refusalFresh = 10 * time.Second

// says is what the last messages of a node come to.
func (h *heard) says(self member.Address, held member.State) string {
	c := h.claim
	fresh := h.no != message.ReasonNone && h.at.Sub(h.noAt) < refusalFresh
	switch {
	case fresh && h.noTo == message.KindVote:
		return "votes no: " + h.no.String()
	case fresh && h.no == message.ReasonClusterFull && !c.Chosen:
		// protocol.md section 4: this leader keeps a place for each seed.
		return "join refused: no place, all are taken or kept for seeds of its list"
	case fresh:
		text := "join refused: " + h.no.String()
		if more, ok := refusals[h.no]; ok {
			text += ", " + more
		}
		return text
	case c.IsZero() && h.held.IsZero():
		return "knows no leader"
	case c.IsZero():
		return fmt.Sprintf("knows no leader, holds version %s", h.held)
	case c.Leader == self:
		return "follows this node"
	}
	who := "follows " + shown(c.Leader) + ", which leads"
	if c.Leader == h.addr {
		who = "leads"
	}
	switch {
	case !c.Chosen:
		return who + " provisionally"
	case c.Version < held.Version, c.Version == held.Version && c.Leader != held.Leader:
		// It does not lead here: this node follows nobody back.
		return fmt.Sprintf("%s version %d, and this node holds version %s of %s: "+
			"is its store of another cluster?", who, c.Version, held.Number, shown(held.Leader))
	default:
		return fmt.Sprintf("%s version %d", who, c.Version)
	}
}

// refusals says what the reasons of refused joins mean to people.
var refusals = map[message.Reason]string{
	message.ReasonNotLeader:   "it does not lead",
	message.ReasonClusterFull: "all its places are taken",
	message.ReasonNotSettled:  "it waits until another change of members is done",
	message.ReasonHoldsState: "this node holds the members of an earlier cluster, " +
		"and that leader holds none yet",
	message.ReasonNotMember:      "it leads members of an earlier cluster, and this is none of them",
	message.ReasonOldIncarnation: "a later run of this address is known",
	message.ReasonQuorumAtStake: "this node lost its store, and the vote of that is needed " +
		"until more members are up",
	message.ReasonLeaderBound: "a later leader is being elected",
}

// maxDiffering bounds the differences of one node that a line names.
const maxDiffering = 3

// brief says in a few words why there is no connection.
func brief(err error) string {
	if differ := mismatches(err); len(differ) > 0 {
		rest := ""
		if more := len(differ) - maxDiffering; more > 0 {
			differ, rest = differ[:maxDiffering], fmt.Sprintf(" and %d more", more)
		}
		return "differs in " + strings.Join(differ, ", ") + rest
	}
	switch {
	case errors.Is(err, transport.ErrNoAnswer):
		return errSilent.Error()
	case errors.Is(err, transport.ErrCertificate):
		if other, ok := errors.AsType[*transport.IdentityError](err); ok {
			return "its certificate is for " + other.For()
		}
		if refused, ok := errors.AsType[*transport.CertificateError](err); ok {
			return member.OneLine("certificate refused: "+refused.Why, maxErrorBytes)
		}
		return "certificate refused"
	case errors.Is(err, transport.ErrNotNode):
		return "another program answers"
	case errors.Is(err, transport.ErrSelf):
		return "this is the node itself, or another process advertises its address"
	}
	closed, ok := errors.AsType[*transport.CloseError](err)
	switch {
	case ok && closed.Remote && closed.Code == transport.CodeRefused:
		return "refuses this node: " + member.QuotePeerText(closed.Reason)
	case ok && closed.Remote && closed.Code == transport.CodeEarlierRun:
		return "knows a later run of this address"
	case ok && closed.Remote && closed.Code == transport.CodeClosed:
		return "is shutting down"
	}
	return strings.TrimPrefix(member.OneLine(err.Error(), maxErrorBytes), "transport: ")
}

// mismatches lists the differences of configuration that an error joins.
func mismatches(err error) []string {
	//nolint:errorlint // it walks the tree of errors itself
	if m, ok := err.(*ConfigMismatchError); ok {
		return []string{fmt.Sprintf("%s (%s here, %s there)", words(m.Field),
			member.QuotePeerText(m.Ours), member.QuotePeerText(m.Theirs))}
	}
	var list []string
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			list = append(list, mismatches(one)...)
		}
	case interface{ Unwrap() error }:
		list = mismatches(e.Unwrap())
	}
	return list
}

// words takes the name of a field apart: "heartbeat interval", "TTL timeout".
func words(field string) string {
	var b strings.Builder
	runes := []rune(field)
	for i, r := range runes {
		begins := unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if begins && i > 0 {
			b.WriteByte(' ')
		}
		if begins {
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
