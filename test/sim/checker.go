// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// invariants names everything that a run can violate: the invariants of protocol.md section
// 11 and the rules of the simulator.
var invariants = [...]string{
	"I1", "I10", "I11", "I2", "I3", "I4", "I5", "I6", "I7", "L1", "L2", "L3", "L4", "L5", "bound",
	"changed", "claim", "codec", "copy", "flood", "impostor", "leave", "preferred", "records",
	"register", "seat", "sender", "spin", "stop", "unasked", "unsaved", "witness",
}

// Violation is a broken invariant.
type Violation struct {
	Invariant string        // one of invariants
	At        time.Duration // global time
	Text      string
}

// Error implements error.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s at %v: %s", v.Invariant, v.At, v.Text)
}

// checker observes a cluster after every step. It reads only the data that is visible from outside:
// stores, messages and views.
type checker struct {
	size, quorum int // the greatest in the cluster
	sizes        map[member.Address]int
	quorums      map[uint64]int // of versions
	largest      int            // number of members of the largest roster
	smallest     int            // the smallest size of a process that had authority, or 0
	seeds        []member.Address
	floors       []uint64 // of Setup
	now          int64
	first        *Violation
	// void is the reason why the invariants between nodes no longer apply, or "". They do not apply if
	// memory stores were lost and a founding can be repeated (protocol.md section 11).
	void string

	auth    []authority // indexed by process
	token   token       // the greatest token seen
	changes int         // number of times that authority passed to another process
	gap     int64       // shortest gap between two holders; never if there was none

	stores        []paxos.Durable                // contents of each process's disk
	homes         []member.Address               // indexed by process
	voters        map[member.Voter]*storeHistory // what each store has saved so far
	values        map[paxos.ID]*value            // accepted values, by ballot
	chosen        map[uint64]*value              // by version
	order         []uint64                       // versions in the order of choice
	states        map[member.Number]member.State
	digests       map[member.Number]uint64
	newest        map[uint64]member.State // latest state of the leader of each version
	commits       map[uint64]uint64       // committed revision + 1 of each version
	commitV       []uint64                // versions in commits
	heardAt       map[heardKey]int64      // time of the latest message
	kept          map[keptKey]kept        // the latest keep-alives
	trusts        trusts                  // trust in records
	seatGiven     member.State            // state before the step in which a leader gave a seat away
	wasAuthorized bool                    // whether the leader had authority before that step

	preferredAt int64 // when a leader last handed over to a more preferred member

	restored bool             // a store was ever restored from a copy
	copied   []member.Address // of the processes whose stores were

	founded     bool
	neverJoined []bool                  // set for seeds that have not joined since the founding
	restarted   []bool                  // set for seeds that had voted and started with a new store
	claimants   map[member.StoreID]bool // their stores
}

func newChecker(size int, seeds []member.Address, processes int) *checker {
	return &checker{
		size:        size,
		quorum:      member.Quorum(size),
		seeds:       seeds,
		auth:        make([]authority, processes),
		gap:         never,
		stores:      make([]paxos.Durable, processes),
		homes:       make([]member.Address, processes),
		sizes:       map[member.Address]int{},
		quorums:     map[uint64]int{},
		voters:      map[member.Voter]*storeHistory{},
		values:      map[paxos.ID]*value{},
		chosen:      map[uint64]*value{},
		states:      map[member.Number]member.State{},
		digests:     map[member.Number]uint64{},
		newest:      map[uint64]member.State{},
		commits:     map[uint64]uint64{},
		heardAt:     map[heardKey]int64{},
		kept:        map[keptKey]kept{},
		neverJoined: make([]bool, len(seeds)),
		restarted:   make([]bool, len(seeds)),
		claimants:   map[member.StoreID]bool{},
		trusts:      trusts{unsure: make([]int64, processes+maxWorkers), set: map[setting]bool{}},
	}
}

// noteViolation records the first violation.
func (k *checker) noteViolation(invariant, format string, args ...any) {
	if k.first == nil {
		k.first = &Violation{invariant, time.Duration(k.now), fmt.Sprintf(format, args...)}
	}
}

// noteBroken records a violation of an invariant that does not apply if a founding can be repeated.
func (k *checker) noteBroken(invariant, format string, args ...any) {
	if k.void == "" {
		k.noteViolation(invariant, format, args...)
	}
}

// noteStart records that a process starts with the contents of its store.
func (k *checker) noteStart(now int64, p *process) {
	k.now = now
	k.homes[p.index] = p.cfg.Address
	k.noteBlankSeed(p, k.stores[p.index])
	k.stores[p.index] = p.store
	k.noteClaimant(p)
	if !p.claims {
		k.sizes[p.cfg.Address] = p.cfg.Size
	}
}

// noteEnd records that a process is down, which ends its authority.
func (k *checker) noteEnd(now int64, p *process) {
	k.now = now
	if a := &k.auth[p.index]; a.version != 0 {
		a.version, a.until = 0, min(a.until, now)
	}
	k.endTrust(p.index)
	k.seatGiven = member.State{}
}

// heardKey identifies a process and the store of a process that it heard.
type heardKey struct {
	by    int
	store member.StoreID
}

// keptKey identifies a leader and the run of a member that sent it keep-alives.
type keptKey struct {
	by int
	of member.Identity
}

// kept is when the latest keep-alive arrived, and the latest one that a leader cannot refuse
// because of its bound.
type kept struct{ at, unbound int64 }

// noteHeard records that a message reached a process. A leader hears a member when it
// receives a keep-alive or a request to join.
func (k *checker) noteHeard(by int, m message.Message) {
	if b, ok := m.Body.(message.LeaderKeepAlive); ok && m.Claim.Leader == k.homes[by] {
		key := keptKey{by, m.From}
		last := k.kept[key]
		if last.at = k.now; b.Bound <= m.Claim.Version {
			last.unbound = k.now
		}
		k.kept[key] = last
	}
	switch m.Body.Kind() {
	case message.KindLeaderKeepAlive, message.KindJoinClusterRequest:
		k.heardAt[heardKey{by, m.From.StoreID}] = k.now
	}
}

// checkStep checks a process after a step.
func (k *checker) checkStep(now int64, p *process, out statemachine.Output) {
	k.now = now
	if d := p.machine.Durable(); !sameDurable(d, p.store) {
		k.noteViolation("unsaved", "%s uses the state %s, but has only saved %s",
			p.cfg.Name, formatDurable(d), formatDurable(p.store))
	}
	version, until := p.machine.Authority(p.clock.at(now))
	if version == 0 {
		k.endAuthority(p.index)
	} else {
		// The machine gained authority in its step, and the save may have taken time after the step.
		if a := &k.auth[p.index]; a.version != version || a.until <= p.stepAt {
			a.since = p.stepAt
		}
		k.checkAuthority(p.index, p.identity(), version, p.clock.globalTime(until))
	}
	k.checkSeatGiven(p, version != 0, out)
	k.checkView(p, p.machine.View(p.stepTime), out.Changed)
}

// checkSeatGiven checks that a leader that gave a seat away was quorate before, during or
// after that step.
func (k *checker) checkSeatGiven(p *process, quorate bool, out statemachine.Output) {
	if k.seatGiven.Version == 0 {
		return
	}
	excused := k.mayBeLate(p.index, k.seatGiven.Version, p.stepAt, k.auth[p.index].lease)
	if !quorate && !k.wasAuthorized && !wasQuorate(out) && !excused {
		k.noteBroken("I5", "%s gave away a seat of %s, but has no quorum", p.cfg.Name,
			formatState(k.seatGiven))
	}
	k.seatGiven = member.State{}
}

// wasQuorate reports whether a leader gained authority during a step. A leader that hands
// over may lose it again in the same step.
func wasQuorate(out statemachine.Output) bool {
	return slices.ContainsFunc(out.Trace, func(t statemachine.Trace) bool {
		return t.Kind == statemachine.GainedAuthority
	})
}

// checkView checks the view that a node shows. Package cluster reads the view after each step that
// reports a change. It reads authority after the save of the step, when the lease may have ended.
func (k *checker) checkView(p *process, v member.View, changed bool) {
	old := p.shownView
	if !changed && !sameView(old, v) {
		k.noteViolation("changed", "the view of %s is %+v and was %+v, but no step reported the change",
			p.cfg.Name, v, old)
	}
	p.shownView = v
	authority := k.auth[p.index].version
	switch {
	case len(v.Members) > k.size:
		k.noteBroken("I5", "%s shows %d members, want at most %d", p.cfg.Name, len(v.Members), k.size)
	case !v.Members.IsSorted():
		k.noteViolation("I5", "%s shows an unsorted list of members: %v", p.cfg.Name, v.Members)
	case v.Role == member.Leading && v.Leader != p.cfg.Address:
		k.noteViolation("I6", "%s leads, but shows %v as the leader", p.cfg.Name, v.Leader)
	case v.Role != member.Leading && authority != 0:
		k.noteViolation("I2", "%s has authority for version %d, but its role is %v",
			p.cfg.Name, authority, v.Role)
	case v.Role == member.Leading && v.Quorate != (authority != 0) &&
		(authority != 0 || k.now == p.stepAt):
		k.noteViolation("I2", "%s shows quorate=%v, but has authority for version %d",
			p.cfg.Name, v.Quorate, authority)
	}
	// A member that was just admitted may have no state yet.
	if changed && v.Quorate && v.Version > 0 {
		k.checkShown(p, v)
	}
}

// sameView compares the members only if the two views do not share the slice.
func sameView(a, b member.View) bool {
	return a.Self == b.Self && a.Role == b.Role && a.Version == b.Version &&
		a.Revision == b.Revision && a.Leader == b.Leader && a.Quorate == b.Quorate &&
		len(a.Members) == len(b.Members) && (len(a.Members) == 0 ||
		&a.Members[0] == &b.Members[0] || slices.Equal(a.Members, b.Members))
}

// checkShown checks that all nodes show the same state for the same version and revision.
func (k *checker) checkShown(p *process, v member.View) {
	s, ok := k.states[member.Number{Version: v.Version, Revision: v.Revision}]
	if !ok {
		k.noteBroken("I6", "%s shows state %d.%d under a quorate leader, but no node holds that state",
			p.cfg.Name, v.Version, v.Revision)
		return
	}
	same := len(s.Roster) == len(v.Members) && s.Leader == v.Leader
	for i := 0; same && i < len(s.Roster); i++ {
		want := s.Roster[i]
		want.Status = want.Shown()
		same = want == v.Members[i]
	}
	if !same {
		k.noteBroken("I6",
			"%s shows the members %v and the leader %s for state %d.%d, but that state is %s",
			p.cfg.Name, v.Members, v.Leader.Host, v.Version, v.Revision, formatState(s))
	}
}

// noteBlankSeed records a seed that voted and then restarted with a new store. It could take part
// in a second founding. If a majority of the seeds is blank, a founding can be repeated.
func (k *checker) noteBlankSeed(p *process, before paxos.Durable) {
	i := slices.Index(k.seeds, p.cfg.Address)
	if i < 0 || p.index != p.home || p.cfg.JoinOnly || before.StoreID == p.store.StoreID {
		return
	}
	if hasVoted(before) {
		k.restarted[i] = true
		k.checkVoid()
	}
}

// noteFounding starts tracking which seeds have not joined.
func (k *checker) noteFounding() {
	k.founded = true
	for i, s := range k.seeds {
		k.neverJoined[i] = true
		for p, home := range k.homes {
			if home == s && !k.hasNoFounding(k.stores[p]) {
				k.neverJoined[i] = false
			}
		}
	}
	k.checkVoid()
}

// noteJoined records that a seed holds a state or a vote of the founding.
func (k *checker) noteJoined(addr member.Address) {
	if i := slices.Index(k.seeds, addr); i >= 0 {
		k.neverJoined[i] = false
	}
}

func (k *checker) checkVoid() {
	if n := k.blankSeeds(); k.void == "" && n >= member.Quorum(len(k.seeds)) {
		k.void = fmt.Sprintf("by %v, %d of %d seeds had lost their store or had never joined",
			time.Duration(k.now), n, len(k.seeds))
	}
}

// blankSeeds counts the seeds that could take part in a second founding.
func (k *checker) blankSeeds() int {
	n := 0
	for i := range k.seeds {
		if k.neverJoined[i] || k.restarted[i] {
			n++
		}
	}
	return n
}

// hasVoted reports whether a store contains a state or a vote that must not be lost.
func hasVoted(d paxos.Durable) bool {
	return !d.Promised.IsZero() || !d.Accepted.IsZero() || !d.Held.IsZero()
}

// hasNoFounding reports whether a store holds no state and has not accepted the value of the
// founding.
func (k *checker) hasNoFounding(d paxos.Durable) bool {
	founded := k.chosen[1]
	return d.Held.IsZero() && (founded == nil || d.Accepted.State.Digest() != founded.digest)
}

func sameDurable(a, b paxos.Durable) bool {
	return a.StoreID == b.StoreID && a.Incarnation == b.Incarnation && a.Promised == b.Promised &&
		a.Accepted.ID == b.Accepted.ID && a.Accepted.Base == b.Accepted.Base &&
		sameState(a.Accepted.State, b.Accepted.State) && sameState(a.Held, b.Held)
}

// sameState compares the digests of the rosters only if the states do not share one roster.
func sameState(a, b member.State) bool {
	if a.Number != b.Number || a.Leader != b.Leader || len(a.Roster) != len(b.Roster) {
		return false
	}
	shared := len(a.Roster) == 0 || &a.Roster[0] == &b.Roster[0]
	return shared && a.Records == b.Records || a.Digest() == b.Digest()
}

// formatState returns a state in one line.
func formatState(s member.State) string {
	if s.Number.IsZero() && len(s.Roster) == 0 {
		return "nothing"
	}
	parts := make([]string, len(s.Roster))
	for i, m := range s.Roster {
		parts[i] = fmt.Sprintf("%s/%x#%d %v", m.Address.Host, m.StoreID[:2], m.Incarnation, m.Status)
		if m.Gone {
			parts[i] += "(gone)"
		}
		if m.Resigned {
			parts[i] += "(resigned)"
		}
	}
	return fmt.Sprintf("%v of %s {%s}", s.Number, s.Leader.Host, strings.Join(parts, ", "))
}

func formatDurable(d paxos.Durable) string {
	return fmt.Sprintf("{%x#%d promised %v accepted %v on %v %s held %s}", d.StoreID[:2],
		d.Incarnation, d.Promised, d.Accepted.ID, d.Accepted.Base, formatState(d.Accepted.State),
		formatState(d.Held))
}
