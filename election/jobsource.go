// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// enableInterval is how long Enable waits before it looks at the records again.
const enableInterval = 100 * time.Millisecond

// jobSource is the leader.Source of a job. Its decisions depend only on the records as they
// are: a request of unknown outcome shows in them, or is made again.
type jobSource struct {
	store   record.Store
	session record.Session
	name    string
	prefix  string // of the keys of the job's records
	slot    *jobrecord.Slot

	life    context.Context // ends with Close, or with the store; its cause is why
	end     context.CancelCauseFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	records member.Records // as last seen
	reign   *reignOfJob    // nil while this member does not lead
	lease   *leader.Lease  // the newest, of this member or another; nil before the first
	refused error          // of the last attempt to lead, or to give that up
	// notBefore is until when this member leaves the job to others, since its work failed.
	notBefore time.Time
	changed   chan struct{} // closed when any of these changes
}

// reignOfJob is one leadership of this member.
type reignOfJob struct {
	lease *leader.Lease
	over  chan struct{} // closed when the record was dropped or lost, or err is set
	err   error         // of giving up
}

func newJobSource(s record.Store, job string) (*jobSource, error) {
	prefix, err := jobrecord.JobPrefix(job)
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	j := &jobSource{store: s, name: job, prefix: prefix, changed: make(chan struct{})}
	j.session = s.Session(j.whyLost)
	j.slot = &jobrecord.Slot{Store: s, Session: j.session, Key: prefix + "leader"}
	j.life, j.end = context.WithCancelCause(context.Background())
	return j, nil
}

// whyLost returns ErrDisabled if this member was disabled in the commit by which it lost the
// lead, and nil if the reason is another one.
func (j *jobSource) whyLost(_ string, now []member.Record) error {
	if !j.isEnabled(now, j.session.Member()) {
		return leader.ErrDisabled
	}
	return nil
}

// isEnabled reports whether a member may lead. Ids are matched whole.
func (j *jobSource) isEnabled(records member.Records, id string) bool {
	_, disabled := records.Find(j.prefix + "disabled/" + id)
	return !disabled
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

// Resign implements leader.Source. The loop of contend drops the record, and then leaves the
// job to all other members for a while.
func (j *jobSource) Resign(t leader.Term, _ error, pause time.Duration) error {
	j.mu.Lock()
	r := j.reign
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

// endReign ends the lease by which this member leads, if it does.
func (j *jobSource) endReign(why error) {
	j.mu.Lock()
	r := j.reign
	j.mu.Unlock()
	if r != nil {
		r.lease.End(why)
	}
}

// Close implements leader.Source. Without a majority it cannot drop the record: that then
// ends with the member.
func (j *jobSource) Close(ctx context.Context) error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.end(leader.ErrClosed)
	j.endReign(leader.ErrClosed)
	j.running.Wait() // its loops, which life has ended
	for {
		err := j.slot.Settle(ctx)
		switch {
		case err == nil || errors.Is(err, leader.ErrClosed):
			return nil // the records of a closed store end by themselves
		case !jobrecord.MayPass(err) || ctx.Err() != nil:
			return fmt.Errorf("election: close job %q: %w", j.name, err)
		}
		_ = jobrecord.Pause(ctx, nil, jobrecord.LookInterval)
	}
}

// beginCall lets a call run, which calls running.Done when it returns.
func (j *jobSource) beginCall() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return leader.ErrClosed
	}
	j.running.Add(1)
	return nil
}

// follow keeps what is seen fresh: it looks at each hint, and also without one.
func (j *jobSource) follow() {
	for j.life.Err() == nil {
		ctx, stop := context.WithCancel(j.life)
		changed := j.store.Watch(ctx, j.prefix)
		for lost := false; !lost && ctx.Err() == nil; {
			var open bool
			wait := time.NewTimer(jobrecord.LookInterval)
			select {
			case _, open = <-changed:
				lost = !open
			case <-wait.C:
			case <-ctx.Done():
			}
			wait.Stop()
			_ = j.refresh(ctx) // if it fails, the next look comes soon
		}
		stop()
		for range changed { // until the watch has ended
		}
		_ = jobrecord.Pause(j.life, nil, jobrecord.LookInterval)
	}
}

// refresh looks at the records. A closed store ends the job.
func (j *jobSource) refresh(ctx context.Context) error {
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
	j.updateLease()
	return nil
}

// updateLease makes the lease that of the leader that the records show, unless this member
// leads, and wakes those that wait. j.mu must be held.
func (j *jobSource) updateLease() {
	defer j.wakeWaiting()
	if j.reign != nil {
		return
	}
	var now leader.Holder
	if r, ok := j.records.Find(j.slot.Key); ok && !r.Revoked && !j.session.Owns(r) {
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

// wakeWaiting wakes those that wait for a change. j.mu must be held.
func (j *jobSource) wakeWaiting() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// setReign publishes that this member leads, or leads no longer.
func (j *jobSource) setReign(r *reignOfJob) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.reign = r; r == nil {
		j.updateLease()
		return
	}
	if j.lease != nil {
		j.lease.End(leader.ErrSuperseded)
	}
	j.lease = r.lease
	j.wakeWaiting()
}

// setRefused records the result of an attempt to lead, or to give that up.
func (j *jobSource) setRefused(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refused = err
}
