// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

const (
	// turnInterval is the time between the attempts of successive members. A commit takes less time,
	// so the first member succeeds and the others see its record.
	turnInterval = 100 * time.Millisecond
	// startInterval is used instead of turnInterval until a member has seen a leader of the job. If a
	// thousand jobs start together, a commit takes longer. A leader that resigns uses turnInterval, so
	// a member that waits longer would never lead.
	startInterval = 500 * time.Millisecond
)

// runElection tries to lead whenever no member leads.
func (j *jobSource) runElection() {
	var resigned member.Token // token of the last term that this member gave up
	var q jobQueue
	for j.life.Err() == nil {
		j.mu.Lock()
		records, former, changed, notBefore := j.records, j.former, j.changed, j.notBefore
		j.mu.Unlock()
		turn := turnInterval
		if former == "" {
			turn = startInterval
		}
		r, taken := holding.Find(records, j.slot.Key)
		again := holding.LookInterval
		switch {
		case taken && r.Token == resigned && j.session.Owns(r):
			j.setRefused(j.slot.Drop(j.life, resigned))
		case taken && j.session.Owns(r) && !r.Revoked:
			led := j.leadByRecord(r.Token)
			if led == nil { // the outcome of the commit was unknown, or the record is not trusted
				led = j.acquireRecord(record.Op{Kind: record.Held, Key: r.Key, Token: r.Token})
			}
			if led == nil {
				changed = nil // an immediate retry would also fail if the node is leaving
			}
			resigned, q = j.afterTerm(led, resigned, q)
		case taken, !j.isEnabled(records, j.session.Member()):
			q = jobQueue{}
		default:
			line := rotateOrder(j.candidateOrder(records), former)
			again = max(q.turnDelay(line, j.session.Member(), turn), time.Until(notBefore))
			if again <= 0 {
				led := j.acquireRecord(record.Op{Kind: record.Absent, Key: j.slot.Key})
				resigned, q = j.afterTerm(led, resigned, q)
				again = holding.LookInterval
			}
		}
		_ = holding.Pause(j.life, changed, again)
	}
}

// afterTerm returns the next values of resigned and q for runElection after a term of this member,
// or after a failed attempt if led is nil.
func (j *jobSource) afterTerm(
	led *jobTerm, resigned member.Token, q jobQueue,
) (member.Token, jobQueue) {
	switch {
	case led == nil:
		return resigned, jobQueue{since: time.Now(), last: q.last}
	case gaveUp(led.lease):
		return led.lease.Term().Token(), jobQueue{last: true}
	default:
		return resigned, jobQueue{}
	}
}

// gaveUp reports whether the lease ended because this member gave it up or its node leaves.
func gaveUp(l *leader.Lease) bool {
	err := l.Term().Err()
	return errors.Is(err, leader.ErrResigned) || errors.Is(err, leader.ErrDisabled) ||
		errors.Is(err, leader.ErrClosed)
}

// jobQueue determines when a member tries to lead.
type jobQueue struct {
	since time.Time // when the member noticed the missing record, or last failed to set it
	last  bool      // this member gave up leadership and lets all others try first
}

// turnDelay returns how long this member waits for the members before it. Each member tries at a
// different time. If one member succeeds, the members after it see that it leads.
func (q *jobQueue) turnDelay(line []string, self string, turn time.Duration) time.Duration {
	if q.since.IsZero() {
		q.since = time.Now()
	}
	rank := slices.Index(line, self)
	switch {
	case q.last:
		rank = len(line) + 1
	case rank < 0: // a worker, or a member that has just started
		rank = len(line)
	}
	return time.Until(q.since.Add(time.Duration(rank) * turn))
}

// candidateOrder returns the enabled members in the order in which they try. The order differs
// between jobs and is the same on every member that sees the same members.
func (j *jobSource) candidateOrder(records []member.Record) []string {
	may := slices.DeleteFunc(slices.Clone(j.store.Members()), func(id string) bool {
		return !j.isEnabled(records, id)
	})
	slices.SortFunc(may, func(a, b string) int { return compareHashes(j.prefix, a, b) })
	return may
}

// rotateOrder moves the members after the former leader to the front. The former leader is then
// last. Otherwise two members whose work fails could pass the job to each other, and a third would
// never lead.
func rotateOrder(line []string, former string) []string {
	i := slices.Index(line, former) + 1
	return slices.Concat(line[i:], line[:i])
}

// acquireRecord sets the record and then leads. It sets the record only under the given condition,
// and only if this member is enabled. It returns nil if this member could not lead.
func (j *jobSource) acquireRecord(condition record.Op) *jobTerm {
	ctx, stop := j.slot.Attempt(j.life)
	defer stop()
	enabled := holding.EnabledOps(j.prefix, j.session.Member())
	token, err := j.slot.Set(ctx, append(enabled, condition)...)
	j.setRefused(err)
	if err != nil {
		return nil
	}
	return j.leadByRecord(token)
}

// leadByRecord leads until the lease has ended and its functions have returned. If this member gave
// up the lease, leadByRecord drops the record. It returns nil if it cannot lead with that record.
func (j *jobSource) leadByRecord(token member.Token) *jobTerm {
	lease, err := j.session.Hold(j.life, j.slot.Key, token)
	if err != nil {
		return nil
	}
	r := &jobTerm{lease: lease, over: make(chan struct{})}
	j.setTerm(r)
	defer func() {
		j.setTerm(nil)
		close(r.over)
	}()
	select {
	case <-lease.Term().Done():
	case <-j.life.Done():
		lease.End(context.Cause(j.life))
	}
	_ = lease.Wait(context.Background())      // ends because functions return when their contexts end
	if gaveUp(lease) && j.life.Err() == nil { // Close drops the record of a closed job
		r.err = j.slot.Drop(j.life, token)
		j.setRefused(r.err)
	}
	return r
}
