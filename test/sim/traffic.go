// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// checkSent checks that the sender of a message has saved the data in the message, so that a crash
// cannot revert it (protocol.md section 6, durable).
func (k *checker) checkSent(p *process, m message.Message) {
	if p.renewed {
		return // the message is from the previous run
	}
	if m.From != p.identity() || m.To == p.cfg.Address {
		k.noteViolation("sender", "%s is %v, but sends %v to %v in the name of %v",
			p.cfg.Name, p.identity(), m.Body.Kind(), m.To, m.From)
	}
	switch b := m.Body.(type) {
	case message.Proposal:
		k.checkSentProposal(p, b)
	case message.Vote:
		k.checkSentVote(p, b)
	case message.LeaderElected:
		k.checkAnnouncement(p, b)
	case message.LeaderKeepAlive:
		if m.Claim.Chosen {
			k.noteCopyActs(p, p.store)
			k.checkSentKeepAlive(p, m.Claim, b)
		}
	case message.ClusterAlignment:
		if m.Claim.Chosen {
			k.checkSentState(p, b.State)
		}
	case message.MemberStatusUpdate:
		if m.Claim.Chosen && p.store.Held.Number.Less(b.Number) {
			k.noteViolation("unsaved", "%s sends %v, but has saved only %v", p.cfg.Name, b.Number,
				p.store.Held.Number)
		}
	case message.RecordUpdate:
		if p.store.Held.Number.Less(b.Number) {
			k.noteViolation("unsaved", "%s sends %v, but has saved only %v", p.cfg.Name, b.Number,
				p.store.Held.Number)
		}
	}
}

func (k *checker) checkSentProposal(p *process, b message.Proposal) {
	ballot := b.ID.Ballot
	if ballot.Proposer != p.cfg.Address || ballot.Incarnation != p.store.Incarnation {
		k.noteViolation("sender", "%s proposes %v in the name of another node", p.cfg.Name, b.ID)
	}
	if b.Stage == message.Pre {
		return // the save contains the sender's own vote, if granted
	}
	c := k.chosen[b.ID.Version]
	if c != nil && c.digest != b.State.Digest() && b.ID.Compare(c.accepted.ID) > 0 {
		k.noteBroken("I1", "%s proposed %s by %v after %s was chosen by %v",
			p.cfg.Name, formatState(b.State), b.ID, formatState(c.accepted.State), c.accepted.ID)
	}
}

func (k *checker) checkSentVote(p *process, b message.Vote) {
	if !b.Granted {
		return
	}
	d := p.store
	k.noteVote(p, b.ID)
	switch {
	case b.Stage == message.Pre && d.Promised.Compare(b.ID) < 0:
		k.noteViolation("unsaved", "%s grants %v, but has saved only the promise %v",
			p.cfg.Name, b.ID, d.Promised)
	case b.Stage == message.Pre && d.Accepted.ID.Version == b.ID.Version &&
		b.Accepted.ID != d.Accepted.ID:
		k.noteViolation("I7", "%s grants %v and reports the accepted value %v, want %v",
			p.cfg.Name, b.ID, b.Accepted.ID, d.Accepted.ID)
	case b.Stage == message.Formal && d.Accepted.ID != b.ID && d.Held.Version < b.ID.Version:
		k.noteViolation("unsaved", "%s accepts %v, but has saved only %v",
			p.cfg.Name, b.ID, d.Accepted.ID)
	case d.Held.Number.Less(b.Held):
		k.noteViolation("unsaved", "%s votes with held state %v, but has saved only %v",
			p.cfg.Name, b.Held, d.Held.Number)
	}
}

func (k *checker) checkSentKeepAlive(p *process, claim member.Claim, b message.LeaderKeepAlive) {
	switch {
	case p.store.Held.Number.Less(b.Number):
		k.noteViolation("unsaved", "%s shows state %v, but has saved only %v", p.cfg.Name, b.Number,
			p.store.Held.Number)
	case claim.Chosen && claim.Version < p.store.Least(), claim.Version < p.store.Bound():
		k.noteViolation("I7", "%s keeps %v alive although it is bound to version %d", p.cfg.Name, claim,
			p.store.Least())
	}
}

func (k *checker) checkSentState(p *process, s member.State) {
	if p.store.Held.Number.Less(s.Number) {
		k.noteViolation("unsaved", "%s sends state %v, but has saved only %v", p.cfg.Name, s.Number,
			p.store.Held.Number)
	}
	if known, ok := k.digests[s.Number]; ok && known != s.Digest() {
		k.noteBroken("I6", "%s sends state %s, but others hold %s under the same number",
			p.cfg.Name, formatState(s),
			formatState(k.states[s.Number]))
	}
}

// checkTrace checks a decision against the recorded votes.
func (k *checker) checkTrace(p *process, t statemachine.Trace) {
	k.checkLeads(p, t)
	k.checkCopy(p, t)
	if t.Kind == statemachine.Elected && k.quorum > 1 && k.chosen[t.Version] == nil {
		k.noteBroken("I1", "%s counted a majority for version %d, but no leader was chosen for it",
			p.cfg.Name,
			t.Version)
	}
}
