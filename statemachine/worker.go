// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// A worker owns records without a place in the roster (protocol.md 10, workers). Its messages to
// the leader, and the answers, travel through any member. The leader knows a worker as a peer that
// is not in the roster.

// Limits of the workers of a leader.
const (
	maxWorkers       = 2048
	maxWorkerRecords = 512
	// maxWorkerRequests bounds the requests of a worker that wait at its leader.
	maxWorkerRequests = 64
)

// NewWorker returns the Machine of a worker with the given store, which follows the leader but has
// no vote and saves nothing. Only Step, Advance, Commit, EndTrust and the functions that change
// nothing may be called. Step takes the states that a member knows to be committed, as alignments,
// and the answers of the leader. The messages in Output.Send are for Relay of a member.
func NewWorker(cfg Config, store member.StoreID, now time.Time) *Machine {
	return &Machine{
		cfg:    cfg,
		timing: newTiming(cfg.Timings, cfg.OtherTimings),
		self:   member.WorkerIdentity(store),
		worker: true,
		now:    now,
	}
}

// stepWorker handles a message that a member passed on to this worker.
func (m *Machine) stepWorker(in message.Message) {
	switch b := in.Body.(type) {
	case message.ClusterAlignment:
		m.onCommittedState(in, b.State)
	case message.LeaderKeepAliveAck:
		m.onKeepAliveAck(in, b)
	case message.RecordResponse:
		m.onRecordResponse(in, b)
	default:
		m.drop(in, message.ReasonNotAddressed)
	}
}

// onCommittedState takes a state that a member knows to be committed, and follows its leader. (S)
// It never takes an earlier one: a member may lag behind another one. If the leader waits for a
// later state, the worker shows it immediately: the trust may end before its next keep-alive.
func (m *Machine) onCommittedState(in message.Message, s member.State) {
	c := s.Claim()
	switch {
	case m.otherCluster(message.Message{Cluster: s.Cluster}) || s.Cluster.IsZero():
		m.drop(in, message.ReasonOtherCluster)
		return
	case !m.heldNumber().Less(s.Number) || s.LeaderIdentity().Address.IsZero():
		m.drop(in, message.ReasonOtherVersion)
		return
	}
	if m.role == member.Following && m.claim().Version < c.Version {
		m.forgetLeader()
	}
	m.setHeld(s)
	m.noteCommitted(s.Number)
	switch {
	case m.role != member.Following:
		if len(m.trust.own) == 0 {
			// (S) The next leader may hold records for a shorter time than the earlier ones, and waits only
			// for workers whose records it holds.
			m.trust.until = time.Time{}
		}
		m.becomeFollower(c, s.LeaderIdentity())
	case m.follow.behind:
		m.follow.behind = false
		m.sendKeepAlive()
	}
}

// tickWorker sends a keep-alive through a member when it is due.
func (m *Machine) tickWorker() {
	if m.role == member.Following && m.due(m.workerAt()) {
		m.sendKeepAlive()
	}
}

func (m *Machine) workerDeadline(d *deadline) {
	m.recordsDeadline(d)
	if m.role != member.Following {
		return
	}
	d.add(m.workerAt())
	if m.followsQuorate(m.now) {
		d.add(m.follow.quorateAt.Add(m.timing.LeaderTimeout))
	}
}

func (m *Machine) workerAt() time.Time {
	return m.follow.sentAt.Add(m.timing.workerInterval(m.trust.hold))
}

// CommittedState returns the newest state that is known to be committed, for the workers that
// follow this member.
func (m *Machine) CommittedState() member.State { return m.records.shown }

// Relay passes a message of a worker on to the leader. The caller has checked the greeting of the
// worker. Output.Relayed of this call or a later one contains the answers, if there are any.
func (m *Machine) Relay(now time.Time, in message.Message) Output {
	m.beginCall(now)
	switch {
	case m.stopped || !in.From.IsWorker() || m.otherCluster(in) || !isFromWorker(in.Body):
	case m.role == member.Leading:
		m.onWorkerMessage(in, m.self.Address)
	case m.role == member.Following && m.claim().Chosen:
		m.send(m.claim().Leader, message.Relayed{Message: in})
	}
	return m.endCall()
}

// isFromWorker reports whether a worker sends such messages. No other is relayed, since a leader
// could not read it.
func isFromWorker(b message.Body) bool {
	return b.Kind() == message.KindLeaderKeepAlive || b.Kind() == message.KindRecordRequest
}

// onRelayed handles a message of a worker that a member relays, or the leader's answer to one.
func (m *Machine) onRelayed(in message.Message, b message.Relayed) {
	switch w := b.Message; {
	case w.From == in.From && w.To.IsObserver() && m.isTrusted(in.From):
		m.out.Relayed = append(m.out.Relayed, w)
	case m.role != member.Leading:
		m.drop(in, message.ReasonNotLeader)
	case !m.durable.Held.Roster.Has(in.From) || !w.From.IsWorker() || m.otherCluster(w):
		m.drop(in, message.ReasonUnknownRun)
	default:
		m.onWorkerMessage(w, in.From.Address)
	}
}

// onWorkerMessage handles a message of a worker that came through the given member, as the leader.
func (m *Machine) onWorkerMessage(in message.Message, via member.Address) {
	switch b := in.Body.(type) {
	case message.LeaderKeepAlive:
		m.onWorkerKeepAlive(in, b, via)
	case message.RecordRequest:
		p := m.lead.findWorker(in.From.Address)
		if p == nil || !m.isFreshStamp(b.Seen) {
			m.drop(in, message.ReasonUnknownRun)
			return
		}
		if p.waiting >= maxWorkerRequests {
			m.sendToWorker(in.From.Address, message.RecordResponse{ID: b.ID, Reason: message.ReasonBusy})
			return
		}
		before := m.lead.ofWorkers
		m.onRecordRequest(in, b)
		p.waiting += m.lead.ofWorkers - before
	default:
		m.drop(in, message.ReasonUnknownRun)
	}
}

// onWorkerKeepAlive answers a keep-alive of a worker. (S) Like a member, the worker must show the
// version and the revision that last took a record from it.
func (m *Machine) onWorkerKeepAlive(
	in message.Message, b message.LeaderKeepAlive, via member.Address,
) {
	if in.Claim != m.claim() {
		m.drop(in, message.ReasonOtherVersion) // the worker learns of this leader from a member
		return
	}
	p := m.ensureWorker(in.From)
	if p == nil {
		m.refuse(in, message.ReasonBusy)
		return
	}
	if b.Stamp.Clock >= p.stamp.Clock { // a late one came through an earlier home
		p.stamp, p.via = b.Stamp, via
	}
	p.heard = m.now
	if p.number.Less(b.Number) {
		p.number = b.Number
	}
	m.sendAck(in.From.Address, b.Stamp, true)
}

// ensureWorker returns the entry of a worker, or nil if there is no room for another one. There
// always is for one that owns records: after an election it must not lose them to others. (S) The
// leader does not know which records a new worker has lost before, so the worker must show the
// present revision. Until it does, its records are kept as if its trust were extended now.
func (m *Machine) ensureWorker(id member.Identity) *peer {
	if p := m.lead.findWorker(id.Address); p != nil {
		return p
	}
	if len(m.lead.workers) >= maxWorkers && !m.lead.ownsRecords(id) {
		m.forgetWorkers()
		if len(m.lead.workers) >= maxWorkers {
			return nil
		}
	}
	p := &peer{id: id, revoked: m.heldNumber(), extended: m.now}
	i, _ := m.lead.workerIndex(id.Address)
	m.lead.workers = slices.Insert(m.lead.workers, i, p)
	return p
}

// findWorker returns the entry of a worker, or nil.
func (l *leaderState) findWorker(a member.Address) *peer {
	if i, ok := l.workerIndex(a); ok {
		return l.workers[i]
	}
	return nil
}

func (l *leaderState) workerIndex(a member.Address) (int, bool) {
	return slices.BinarySearchFunc(l.workers, a, func(p *peer, a member.Address) int {
		return p.id.Address.Compare(a)
	})
}

// forgetWorkers forgets the workers that have been silent for HoldTimeout and own nothing. (S) The
// requests that they sent before are not taken later: the stamps that they have seen are too old.
func (m *Machine) forgetWorkers() {
	m.lead.workers = slices.DeleteFunc(m.lead.workers, func(p *peer) bool {
		gone := m.due(p.heard.Add(m.timing.HoldTimeout())) && !m.lead.ownsRecords(p.id)
		if gone {
			m.lead.forgetRequester(p.id.Address)
		}
		return gone
	})
}

// isFreshStamp reports whether this leader sent a stamp within HoldTimeout.
func (m *Machine) isFreshStamp(s message.Stamp) bool {
	return m.isOwnStamp(s) && m.now.Before(time.Unix(0, s.Clock).Add(m.timing.HoldTimeout()))
}

// sendToWorker sends a message to a worker through the member that relayed its last one.
func (m *Machine) sendToWorker(to member.Address, body message.Body) {
	p := m.lead.findWorker(to)
	if p == nil {
		return // it is forgotten, or another leader knows it
	}
	relayed := message.Message{
		From: m.self, To: to, Claim: m.claim(), Cluster: m.clusterID(), Body: body,
	}
	if p.via == m.self.Address {
		m.out.Relayed = append(m.out.Relayed, relayed)
	} else {
		m.send(p.via, message.Relayed{Message: relayed})
	}
}
