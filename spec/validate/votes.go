// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/paxos"
)

// addElection adds promises, proposals and accepted values.
func (u *turn) addElection() {
	promised, accepted := u.writeBallot(u.new.Promised), u.writeBallot(u.new.Accepted.ID)
	newPromise := !u.new.Promised.IsZero() && promised != u.writeBallot(u.old.Promised)
	newValue := !u.new.Accepted.IsZero() && accepted != u.writeBallot(u.old.Accepted.ID)
	isOwn := func(id paxos.ID) bool { return id.Ballot.Run() == u.id }
	var asks, pres []string
	for _, m := range u.s.Sent {
		switch b := m.Body.(type) {
		case message.Proposal:
			if b.Stage == message.Pre {
				asks = append(asks, u.writeBallot(b.ID))
			}
		case message.Vote:
			if b.Stage == message.Pre && b.Granted {
				pres = append(pres, u.writeBallot(b.ID))
			}
		}
	}
	// A node that died in this step or has no other voter promised without a message.
	silent := newPromise && !(newValue && accepted == promised && (u.asked[promised] ||
		!isOwn(u.new.Promised)))
	if silent && isOwn(u.new.Promised) {
		asks = append(asks, promised)
	} else if silent {
		pres = append(pres, promised)
	}
	if newValue && u.new.Accepted.ID.Compare(u.new.Promised) < 0 {
		u.addAcceptance(u.new.Accepted) // before the node proposed with a higher ballot
	}
	for _, id := range pres {
		u.doOnce("pre "+id, func() { u.emitEntry(pre, u.n, u.ballots.add(id)) })
	}
	for _, id := range asks {
		if !u.asked[id] {
			u.asked[id], u.changed = true, true
			u.emitEntry(ask, u.n, u.ballots.add(id))
			u.preVotes[id] = append(u.preVotes[id], u.id)
		}
	}
	u.addFormal(newValue && isOwn(u.new.Accepted.ID))
	if newValue {
		u.addAcceptance(u.new.Accepted)
		if isOwn(u.new.Accepted.ID) {
			u.formalVotes[accepted] = append(u.formalVotes[accepted], u.id)
		}
	}
}

// addFormal adds the formal proposals of this step.
func (u *turn) addFormal(accepts bool) {
	var values []paxos.Accepted
	for _, m := range u.s.Sent {
		if b, ok := m.Body.(message.Proposal); ok && b.Stage == message.Formal {
			values = append(values, paxos.Accepted{ID: b.ID, Base: b.Base, State: b.State})
		}
	}
	if accepts {
		values = append(values, u.new.Accepted)
	}
	for _, v := range values {
		id := u.writeBallot(v.ID)
		if _, ok := u.formal[id]; ok {
			continue
		}
		u.formal[id], u.changed = v, true
		u.emitEntry(choose, u.n, u.values.add(u.writeValue(v)), u.sets.add(u.writeSet(u.preVotes[id])))
	}
}

func (u *turn) addAcceptance(v paxos.Accepted) {
	u.doOnce("formal "+u.writeBallot(v.ID), func() {
		u.emitEntry(formal, u.n, u.values.add(u.writeValue(v)))
	})
}

// doOnce calls f unless the key was used before.
func (u *turn) doOnce(key string, f func()) {
	if !u.done[key] {
		u.done[key], u.changed = true, true
		f()
	}
}

// addVotes adds the sent votes. The specification checks that they follow from the stored content.
func (u *turn) addVotes() {
	for _, m := range u.s.Sent {
		b, ok := m.Body.(message.Vote)
		if !ok {
			continue
		}
		id, promised := u.ballots.add(u.writeBallot(b.ID)), u.ballots.add(u.writeBallot(b.Promised))
		value := u.ballots.add(u.writeBallot(b.Accepted.ID))
		version, revision := int64(b.Held.Version), int64(b.Held.Revision)
		switch {
		case b.Granted && b.Stage == message.Pre:
			u.emitEntry(seenVote, u.n, id, promised, value, version, revision)
		case b.Granted:
			u.addGranted()
			u.emitEntry(seenAcceptance, u.n, id, value)
		default:
			if b.Stage == message.Pre && u.started[b.ID.Ballot.StoreID] {
				u.emitEntry(refuse, u.n, id)
			}
			u.emitEntry(seenRefusal, u.n, promised, version, revision, value)
		}
	}
}

// addGranted adds a formal vote without a save: the value was accepted before.
func (u *turn) addGranted() {
	if m := u.s.Message; m != nil {
		if b, ok := m.Body.(message.Proposal); ok && b.Stage == message.Formal {
			u.addAcceptance(paxos.Accepted{ID: b.ID, Base: b.Base, State: b.State})
		}
	}
}

// addMessages adds the sent stamps, keep-alives, requests and answers.
func (u *turn) addMessages() {
	for i, m := range u.s.Sent {
		switch b := m.Body.(type) {
		case message.LeaderKeepAliveAck:
			if b.Stamp.Version != 0 {
				u.addStamp(i)
			}
		case message.LeaderKeepAlive:
			u.addFollow(m)
			u.emitEntry(keep, u.n, u.keeps.add(u.writeKeep(m)), u.isLost(arrivalKeys(m)[0]))
		case message.JoinClusterRequest:
			u.addFollow(m)
		case message.RecordResponse:
			if b.Reason == message.ReasonNone {
				u.addAnswer(m.To, b)
			}
		}
	}
	for _, a := range u.s.Answers {
		if a.Reason != message.ReasonNone {
			continue
		}
		if u.isLeaderOf(u.disk.Held) {
			u.addAnswer(u.id.Address, a)
		}
		u.emitEntry(answered, u.n, int64(a.ID), int64(a.Number.Version), int64(a.Number.Revision))
	}
}

// addFollow adds that the node follows or asks an address, unless this was added before.
func (u *turn) addFollow(m steplog.Message) {
	if !u.follows[m.To] {
		u.follows[m.To] = true
		u.emitEntry(follow, u.n, u.numberAddress(m.To))
	}
}

// addAuthority adds the authority and the trusted records of the node after the step. It omits what
// the step cannot have changed or ended.
func (u *turn) addAuthority() {
	s := u.s
	again := u.changed || s.Woke || s.Event == steplog.Order
	if s.Version != 0 && (again || s.Version != u.version || s.Until != u.until) {
		u.emitEntry(seenAuthority, u.n, int64(s.Version), s.Until)
	}
	u.version, u.until = s.Version, s.Until
	before := u.trusted
	u.trusted = map[string]steplog.Trust{}
	for _, k := range s.Trusted {
		if u.trusted[k.Key] = k; again || before[k.Key] != k {
			u.emitEntry(seenTrust, u.n, u.numberKey(k.Key), int64(k.Token.Version),
				int64(k.Token.Revision), k.Until)
		}
	}
}
