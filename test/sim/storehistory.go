// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// storeHistory records the greatest vote and state that a store has saved. It is kept if the store
// is lost.
type storeHistory struct {
	granted  paxos.ID      // highest proposal granted in either stage of an election
	accepted paxos.ID      // highest proposal accepted
	held     member.Number // newest state saved
	// promised is the highest promise saved, its own proposals included.
	promised paxos.ID
}

// value is the value of one ballot, with the stores that accepted it.
type value struct {
	accepted paxos.Accepted
	digest   uint64
	quorum   int // of its proposer
	by       []member.Voter
	chosen   bool
}

func (k *checker) historyOf(v member.Voter) *storeHistory {
	l := k.voters[v]
	if l == nil {
		l = &storeHistory{}
		k.voters[v] = l
	}
	return l
}

// checkStored checks that a save reverts no durable data.
func (k *checker) checkStored(p *process, old paxos.Durable) {
	d := p.store
	k.stores[p.index] = d
	if d.StoreID != old.StoreID {
		if !p.cfg.Volatile && !k.endCopy(p, old) {
			k.noteViolation("I7", "%s changed its store id from %v to %v", p.cfg.Name,
				old.StoreID, d.StoreID)
		}
		k.noteBlankSeed(p, old)
		k.noteClaimant(p)
		old = paxos.Durable{StoreID: d.StoreID, Incarnation: d.Incarnation}
	}
	if d.Incarnation < old.Incarnation {
		k.noteViolation("I7", "%s went back from run %d to run %d", p.cfg.Name, old.Incarnation,
			d.Incarnation)
	}
	if d.Promised != old.Promised || d.Accepted.ID != old.Accepted.ID {
		k.noteCopyActs(p, old)
	}
	if d.Held.Number != old.Held.Number { // it counts for the commit
		k.noteCopyActs(p, d)
	}
	k.checkStoredPromise(p, old, d)
	k.checkStoredVote(p, old, d)
	k.checkStoredState(p, old, d)
	if l := k.historyOf(p.voter()); l.promised.Compare(d.Promised) < 0 {
		l.promised = d.Promised
	}
	if p.index == p.home && !k.hasNoFounding(d) {
		k.noteJoined(p.cfg.Address)
	}
}

// checkStoredPromise checks that a promise is lowered only if the store holds a state of the
// version of the promise.
func (k *checker) checkStoredPromise(p *process, old, d paxos.Durable) {
	switch n := d.Promised.Compare(old.Promised); {
	case n < 0 && old.Promised.Version > d.Held.Version:
		k.noteViolation("I7", "%s lowered its promise to %v from %v while holding %v",
			p.cfg.Name, d.Promised, old.Promised, d.Held.Number)
	case n > 0 && d.Promised.Version <= old.Held.Version:
		k.noteViolation("I7", "%s promised %v, but already held %v",
			p.cfg.Name, d.Promised, old.Held.Number)
	}
}

// checkStoredVote checks an accepted value. It must not be older than the value that it replaces,
// below the promise, or built on an older state than the voter holds.
func (k *checker) checkStoredVote(p *process, old, d paxos.Durable) {
	a := d.Accepted
	switch n := a.ID.Compare(old.Accepted.ID); {
	case n == 0:
		return
	case n < 0 && old.Accepted.ID.Version > d.Held.Version:
		k.noteViolation("I7", "%s lowered its vote to %v from %v while holding %v",
			p.cfg.Name, a.ID, old.Accepted.ID, d.Held.Number)
	case n > 0 && a.ID.Compare(old.Promised) < 0:
		k.noteViolation("I7", "%s accepted %v below its promise %v", p.cfg.Name, a.ID, old.Promised)
	case n > 0 && a.ID.Version <= old.Held.Version:
		k.noteViolation("I7", "%s accepted %v, but already held %v", p.cfg.Name, a.ID, old.Held.Number)
	case n > 0 && !a.Base.IsZero() && !a.State.Roster.IsVoter(p.voter()):
		k.noteViolation("bound", "%s accepted %v, in whose state it has no vote: %s", p.cfg.Name, a.ID,
			formatState(a.State))
	case n > 0 && a.Base.Less(old.Held.Number):
		k.noteViolation("I7", "%s accepted %v built on %v, but already held %v",
			p.cfg.Name, a.ID, a.Base, old.Held.Number)
	}
	if d.Promised.Compare(a.ID) < 0 {
		k.noteViolation("I7", "%s accepted %v, but its promise is only %v", p.cfg.Name, a.ID, d.Promised)
	}
	if !a.IsZero() {
		k.noteVote(p, a.ID)
		if l := k.historyOf(p.voter()); l.accepted.Compare(a.ID) < 0 {
			l.accepted = a.ID
		}
		k.countFormalVote(p.voter(), a)
	}
}

// checkStoredState checks a held state. It must not be older than the state that it replaces, or
// below the version that the node is bound to.
func (k *checker) checkStoredState(p *process, old, d paxos.Durable) {
	n := d.Held.Number.Compare(old.Held.Number)
	switch {
	case !old.Held.IsZero() && d.Held.Cluster != old.Held.Cluster:
		k.noteViolation("I11", "%s holds a state of cluster %v, but held one of cluster %v before",
			p.cfg.Name, d.Held.Cluster, old.Held.Cluster)
	case n < 0:
		k.noteViolation("I7", "%s holds %v, but held %v before",
			p.cfg.Name, d.Held.Number, old.Held.Number)
	case n == 0:
		if !sameState(d.Held, old.Held) {
			k.noteBroken("I6", "%s changed the state %s to %s without a new number",
				p.cfg.Name, formatState(old.Held), formatState(d.Held))
		}
		return
	case d.Held.Version < old.Bound():
		k.noteBroken("I7", "%s accepted state %v although it is bound to version %d",
			p.cfg.Name, d.Held.Number,
			old.Bound())
	}
	if l := k.historyOf(p.voter()); l.held.Less(d.Held.Number) { // less after a copy was restored
		l.held = d.Held.Number
	}
	k.checkHeld(p, old.Held.Number, d.Held)
}

// noteVote records that a store voted for id, and checks that id is not below its earlier votes.
func (k *checker) noteVote(p *process, id paxos.ID) {
	l := k.historyOf(p.voter())
	if id.Compare(l.granted) < 0 && !p.restored {
		k.noteViolation("I7", "%s voted for %v after %v", p.cfg.Name, id, l.granted)
		return
	}
	l.granted = id
}

// countFormalVote counts a saved formal vote and checks invariant I1. A ballot has one value, and a
// quorum of voters of its base chooses the value. After that, no store accepts another value for
// the version.
func (k *checker) countFormalVote(voter member.Voter, a paxos.Accepted) {
	digest := a.State.Digest()
	v := k.values[a.ID]
	if v == nil {
		v = &value{accepted: a, digest: digest, quorum: k.quorumOf(a.ID.Ballot.Proposer)}
		k.values[a.ID] = v
	}
	if v.digest != digest || v.accepted.Base != a.Base {
		k.noteBroken("I1", "ballot %v has two values: %s built on %v and %s built on %v",
			a.ID, formatState(v.accepted.State), v.accepted.Base, formatState(a.State), a.Base)
	}
	if c := k.chosen[a.ID.Version]; c != nil && c.digest != digest && a.ID.Compare(c.accepted.ID) > 0 {
		k.noteBroken("I1", "%v accepted %s by %v after %s was chosen by %v",
			voter.Address, formatState(a.State), a.ID, formatState(c.accepted.State), c.accepted.ID)
	}
	if !slices.Contains(v.by, voter) {
		v.by = append(v.by, voter)
	}
	if !v.chosen && k.hasMajority(v) {
		k.noteChosen(v)
	}
}

// hasMajority reports whether a value has a quorum of formal votes, counting only voters of
// its base. A founding needs votes of M nodes, including a majority of the seeds.
func (k *checker) hasMajority(v *value) bool {
	if v.accepted.Base.IsZero() {
		return k.wonFounding(v)
	}
	base, ok := k.states[v.accepted.Base]
	if !ok {
		k.noteBroken("I1", "%v is built on state %v, which no process holds",
			v.accepted.ID, v.accepted.Base)
		return false
	}
	votes := 0
	for _, voter := range v.by {
		if base.Roster.IsVoter(voter) {
			votes++
		}
	}
	return votes >= v.quorum
}

func (k *checker) wonFounding(v *value) bool {
	votes, seeds := 0, 0
	for i, voter := range v.by {
		known := func(o member.Voter) bool { return o.Address == voter.Address }
		if slices.ContainsFunc(v.by[:i], known) {
			continue
		}
		votes++
		if slices.Contains(k.seeds, voter.Address) {
			seeds++
		}
	}
	return votes >= v.quorum && seeds >= member.Quorum(len(k.seeds))
}

// noteChosen records that a value was chosen for its version.
func (k *checker) noteChosen(v *value) {
	a := v.accepted
	v.chosen = true
	if c := k.chosen[a.ID.Version]; c != nil {
		if c.digest != v.digest {
			k.noteBroken("I1", "two leaders for version %d: %s by %v and %s by %v", a.ID.Version,
				formatState(c.accepted.State), c.accepted.ID, formatState(a.State), a.ID)
		}
		return
	}
	k.chosen[a.ID.Version] = v
	if a.State.Version != a.ID.Version {
		if c := k.chosen[a.State.Version]; c != nil {
			k.noteBroken("I1", "two leaders for version %d: of %v and %v", a.State.Version,
				c.accepted.ID, a.ID)
		}
		k.chosen[a.State.Version] = v // a founding above the tokens of recovered stores
	}
	k.order = append(k.order, a.State.Version)
	k.quorums[a.State.Version] = v.quorum
	k.checkInitialState(a)
	for _, version := range k.commitV {
		if version < a.ID.Version {
			k.checkCarriesOver(a.ID.Version, member.Number{Version: version,
				Revision: k.commits[version] - 1})
		}
	}
	if a.Base.IsZero() {
		k.noteFounding()
	}
}

// checkInitialState checks the state in which a chosen leader starts. It must be equal to its base,
// except that the candidate is active and incarnations of voters may be greater (protocol.md
// section 6).
func (k *checker) checkInitialState(a paxos.Accepted) {
	s := a.State
	if s.Number != (member.Number{Version: a.ID.Version}) && !a.Base.IsZero() {
		k.noteBroken("I1", "%v chose a state with the wrong number %v", a.ID, s.Number)
	}
	if lead, ok := s.Roster.Find(s.Leader); !ok || lead.Status != member.Active {
		k.noteBroken("I1", "%v chose %s, whose leader is not active", a.ID, formatState(s))
	}
	if a.Base.IsZero() {
		known := s.Version == 1 || slices.Contains(k.floors, s.Version-1)
		if a.ID.Version != 1 || s.Revision != 0 || !known {
			k.noteBroken("I1", "%v founds a cluster with %s, which is not a first state", a.ID,
				formatState(s))
		}
		return
	}
	base := k.states[a.Base]
	same := len(base.Roster) == len(s.Roster)
	for i := 0; same && i < len(s.Roster); i++ {
		o, n := base.Roster[i], s.Roster[i]
		same = o.Incarnation <= n.Incarnation
		if o.Incarnation < n.Incarnation {
			o.Incarnation, o.Resigned = n.Incarnation, false
		}
		if n.Address == s.Leader && o.IsVoter() {
			o.Status, o.Gone, o.Resigned = member.Active, false, false
		}
		same = same && o == n
	}
	if !same || !s.Records.Equal(base.Records.In(s.Roster)) {
		k.noteBroken("I4", "%v chose %s, which does not follow from its base %s", a.ID,
			formatState(s), formatState(base))
	}
}

// checkAnnouncement checks that an announced value was chosen.
func (k *checker) checkAnnouncement(p *process, m message.LeaderElected) {
	v := k.values[m.ID]
	if v == nil || !v.chosen || v.digest != m.State.Digest() {
		votes := 0
		if v != nil {
			votes = len(v.by)
		}
		k.noteBroken("I1", "%s announces %s by %v, but it was not chosen: %d voters accepted it",
			p.cfg.Name, formatState(m.State), m.ID, votes)
	}
}
