// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// enableInterval is the pause between attempts of Enable.
const enableInterval = 100 * time.Millisecond

// jobSource is the leader.Source of a job. It decides only by the records. After a commit of
// unknown outcome, the records show the result, or the commit is repeated.
type jobSource struct {
	store   record.Store
	session record.Session
	name    string
	prefix  string // prefix of the keys of the job's records
	slot    *holding.Slot

	life    context.Context // ends with Close or with the store; its cause is the reason
	end     context.CancelCauseFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	records []member.Record // the records as last read
	former  string          // the last leader in the records of any read; "" if there was none
	term    *jobTerm        // nil while this member does not lead
	lease   *leader.Lease   // the newest lease, of this member or another; may be nil
	refused error           // error of the last attempt to lead or to give up leadership
	// notBefore is the end of the pause after failed work.
	notBefore time.Time
	changed   chan struct{} // closed when one of these fields changes
}

// jobTerm is a term of this member.
type jobTerm struct {
	lease *leader.Lease
	over  chan struct{} // closed when the record was dropped or lost, or err is set
	err   error         // error of dropping the record
}

func newJobSource(s record.Store, job string) (*jobSource, error) {
	prefix, err := holding.JobPrefix(job)
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	j := newSource(s, nil, prefix, prefix+"leader")
	j.name = job
	j.session = s.Session(j.whyLost)
	j.slot.Session = j.session
	return j, nil
}

// newSource returns a source that leads while its session owns the record under key.
func newSource(s record.Store, session record.Session, prefix, key string) *jobSource {
	j := &jobSource{
		store: s, session: session, prefix: prefix, changed: make(chan struct{}),
		slot: &holding.Slot{Store: s, Session: session, Key: key},
	}
	j.life, j.end = context.WithCancelCause(context.Background())
	return j
}

// whyLost returns ErrDisabled if this member lost leadership because it was disabled, and nil
// otherwise.
func (j *jobSource) whyLost(_ string, now []member.Record) error {
	if !j.isEnabled(now, j.session.Member()) {
		return leader.ErrDisabled
	}
	return nil
}

// isEnabled reports whether a member may lead.
func (j *jobSource) isEnabled(records []member.Record, id string) bool {
	return !holding.IsDisabled(records, j.prefix, id)
}

// State implements leader.Source.
func (j *jobSource) State() (leader.State, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := leader.State{Why: j.refused}
	if j.lease != nil {
		s.Term = j.lease.Term()
	}
	return s, j.changed
}

// Resign implements leader.Source. It makes runElection drop the record and let all other members
// try first.
func (j *jobSource) Resign(t leader.Term, _ error, pause time.Duration) error {
	j.mu.Lock()
	r := j.term
	j.notBefore = time.Now().Add(pause)
	j.mu.Unlock()
	if r == nil || r.lease.Term() != t {
		return nil
	}
	r.lease.End(leader.ErrResigned)
	select {
	case <-r.over:
		return r.err
	case <-j.life.Done():
		return context.Cause(j.life)
	}
}

// endTerm ends the term of this member, if there is one.
func (j *jobSource) endTerm(why error) {
	j.mu.Lock()
	r := j.term
	j.mu.Unlock()
	if r != nil {
		r.lease.End(why)
	}
}

// Close implements leader.Source. If there is no majority to drop the record, the record stays
// until the member ends.
func (j *jobSource) Close(ctx context.Context) error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.end(leader.ErrClosed)
	j.endTerm(leader.ErrClosed)
	j.running.Wait() // the loops stop because life is done
	if err := j.slot.Close(ctx); err != nil {
		return fmt.Errorf("election: close job %q: %w", j.name, err)
	}
	return nil
}

// beginCall registers a call, which must call running.Done when it returns.
func (j *jobSource) beginCall() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return leader.ErrClosed
	}
	j.running.Add(1)
	return nil
}

// watchRecords reads the records after each change, and also every LookInterval.
func (j *jobSource) watchRecords() {
	holding.Watch(j.life, j.store, j.prefix, nil, func(ctx context.Context) time.Duration {
		_ = j.readRecords(ctx) // after an error, the next attempt follows soon
		return holding.LookInterval
	})
}

// readRecords reads the records. If the store is closed, the job ends.
func (j *jobSource) readRecords(ctx context.Context) error {
	records, err := j.store.List(ctx, j.prefix)
	if errors.Is(err, leader.ErrClosed) {
		j.end(fmt.Errorf("election: the store of job %q: %w", j.name, err))
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records = records
	// Not in runElection, which may begin after the leader that OpenJob has seen dropped its record.
	if r, taken := holding.Find(records, j.slot.Key); taken {
		j.former = string(r.Value)
	}
	j.updateLease()
	return nil
}

// updateLease publishes the leader that the records show, if this member does not lead. j.mu must
// be held.
func (j *jobSource) updateLease() {
	defer j.wakeWaiting()
	if j.term != nil {
		return
	}
	var now leader.Holder
	if r, ok := holding.Find(j.records, j.slot.Key); ok && !r.Revoked && !j.session.Owns(r) {
		now = leader.Holder{ID: string(r.Value), Token: r.Token}
	}
	if j.lease != nil && !j.lease.Ended() {
		if j.lease.Term().Holder() == now {
			return
		}
		j.lease.End(leader.ErrSuperseded)
	}
	if now != (leader.Holder{}) {
		j.lease = leader.NewLease(leader.LeaseConfig{Holder: now})
	}
}

// wakeWaiting wakes the callers that wait for a change. j.mu must be held.
func (j *jobSource) wakeWaiting() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// setTerm publishes that this member leads in the term r. If r is nil, it publishes that this
// member no longer leads.
func (j *jobSource) setTerm(r *jobTerm) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.term = r; r == nil {
		j.updateLease()
		return
	}
	if j.lease != nil {
		j.lease.End(leader.ErrSuperseded)
	}
	j.lease = r.lease
	j.wakeWaiting()
}

// setRefused records the result of an attempt to lead or to give up leadership.
func (j *jobSource) setRefused(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refused = err
}
