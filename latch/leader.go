// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// leadership is a time in which this member leads.
type leadership struct {
	token  member.Token
	held   context.Context // ends before anybody else may lead
	told   context.Context // ends when it is to be given up; its cause is why
	giveUp context.CancelCauseFunc
	work   chan struct{}           // closed when the function of WhileLeader returned; nil for none
	end    context.CancelCauseFunc // of its context; nil for none
	over   chan struct{}           // closed when the record was dropped or lost, or err says why not
	err    error                   // of giving up; written before over is closed
}

func (l *leadership) isLive() bool {
	return l != nil && l.held.Err() == nil && l.told.Err() == nil
}

// Leader says who leads, and with which token, as far as is known here. The error is
// record.ErrAbsent where nobody does.
func (j *Job) Leader(ctx context.Context) (id string, token member.Token, err error) {
	if err := j.over(ctx); err != nil {
		return "", member.Token{}, err
	}
	records, err := j.store.List(ctx, j.keys.leader())
	if err != nil {
		return "", member.Token{}, fmt.Errorf("latch: leader of %q: %w", j.name, err)
	}
	id, token, ok := j.keys.leaderOf(records)
	if !ok {
		return "", member.Token{}, fmt.Errorf("latch: nobody leads %q: %w", j.name, record.ErrAbsent)
	}
	return id, token, nil
}

// IsLeader reports whether this member leads at this moment. While nobody does it blocks
// until somebody leads, or nobody may: then it is false at once, and always where this
// member observes. Where ctx ends first,
// the error is its cause with what the last attempt to lead was refused by, such as
// record.ErrNoQuorum.
func (j *Job) IsLeader(ctx context.Context) (bool, error) {
	for {
		if err := context.Cause(j.life); err != nil {
			return false, err
		}
		s, changed := j.look()
		r, taken := find(s.records, j.keys.leader())
		switch {
		case j.observe:
			return false, nil
		case s.leads.isLive():
			return true, nil
		case taken && !r.Revoked && !j.session.Owns(r):
			return false, nil
		case len(j.keys.line(s.records, j.store.Members())) == 0:
			return false, nil
		}
		if err := j.wait(ctx, changed); err != nil && j.life.Err() == nil {
			return false, j.noLeader(err)
		}
	}
}

func (j *Job) noLeader(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refused == nil {
		return fmt.Errorf("latch: nobody leads %q: %w", j.name, err)
	}
	return fmt.Errorf("latch: nobody leads %q: %w: %w", j.name, err, j.refused)
}

// Abdicate gives up the leadership that this member has, no other, and blocks until
// another member may lead or ctx ends. It ends the work of WhileLeader and waits for it.
// Others that are ready to lead come first. record.ErrNotHeld says that this member does
// not lead; other errors, that the record is not dropped yet, which is tried on. The work
// itself need only return; where it calls Abdicate all the same, by its own context.
func (j *Job) Abdicate(ctx context.Context) error {
	if err := j.over(ctx); err != nil {
		return err
	}
	s, _ := j.look()
	if !s.leads.isLive() {
		return fmt.Errorf("latch: this member does not lead %q: %w", j.name, record.ErrNotHeld)
	}
	s.leads.giveUp(ErrYielded)
	select {
	case <-s.leads.over:
		return s.leads.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WhileLeader runs fn whenever this member leads, and only then, until ctx ends or the
// job is closed; it returns why. Calls of fn are serial, and two of them share a token
// where the lease lapsed for a while that no other member used. The context of fn ends
// before anybody else can lead, and its cause is why: ErrYielded, ErrClosed, what ctx
// ended by, ErrDisabled, or what the store says: leader.ErrLeaseEnded, cluster.ErrLeft, or
// record.ErrNotHeld where somebody dropped the record.
//
// When fn returns, the member gives up just the leadership of that call. Others that are
// ready to lead come first; where none is, fn soon runs again.
func (j *Job) WhileLeader(
	ctx context.Context, fn func(ctx context.Context, token member.Token),
) error {
	if err := j.begin(); err != nil {
		return err
	}
	defer j.running.Done()
	if j.observe {
		return ErrObserver
	}
	if !j.setWorks(true) {
		return ErrRunning
	}
	defer j.setWorks(false)
	for j.over(ctx) == nil {
		s, changed := j.look()
		if !s.leads.isLive() || !j.work(ctx, s.leads, fn) {
			_ = j.wait(ctx, changed) // the condition of the loop looks again
			continue
		}
		select {
		case <-s.leads.over:
		case <-ctx.Done():
		}
	}
	return j.over(ctx)
}

// stop gives a leadership up for a reason that its work learns before stop returns.
func (j *Job) stop(l *leadership, why error) {
	l.giveUp(why)
	j.mu.Lock()
	defer j.mu.Unlock()
	if l.end != nil {
		l.end(why)
	}
}

// setWorks reports whether it changed anything.
func (j *Job) setWorks(works bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	was := j.works
	j.works = works
	return was != works
}

// work runs fn once, and gives leadership up when fn has returned by itself, or since the
// caller wants no more. It reports whether that is so.
func (j *Job) work(
	ctx context.Context, l *leadership, fn func(context.Context, member.Token),
) (returned bool) {
	j.mu.Lock()
	if !l.isLive() {
		j.mu.Unlock()
		return false
	}
	done := make(chan struct{})
	l.work = done
	j.mu.Unlock()
	defer close(done)
	// An error says that it was lost, as the context did.
	_ = j.hold(ctx, j.keys.leader(), l.token, func(held context.Context) error {
		work, end := context.WithCancelCause(held)
		defer end(nil)
		defer context.AfterFunc(l.told, func() { end(context.Cause(l.told)) })()
		j.mu.Lock()
		l.end = end
		j.mu.Unlock()
		defer func() { // also where fn panics
			if returned = held.Err() == nil || ctx.Err() != nil; returned {
				l.giveUp(ErrYielded)
			}
		}()
		fn(work, l.token)
		return nil
	})
	return returned
}

// contend takes the lead whenever nobody has it. It decides by what is, whatever has
// happened: a request of unknown outcome shows in the records, or is made again.
func (j *Job) contend() {
	var given member.Token // the leadership that was given up last
	var q queue
	turn := startInterval
	for j.life.Err() == nil {
		s, changed := j.look()
		r, taken := find(s.records, j.keys.leader())
		if taken {
			turn = turnInterval
		}
		again := lookInterval
		switch {
		case taken && r.Token == given && j.session.Owns(r):
			j.refuse(j.drop(r.Key, given))
		case taken && j.session.Owns(r) && !r.Revoked:
			l := j.lead(r.Token)
			if l == nil { // set without learning of it
				l = j.acquire(record.Op{Kind: record.Held, Key: r.Key, Token: r.Token})
			}
			given, q = j.after(l, given, q)
		case taken:
			q = queue{} // a contender that sees a leader writes nothing
		case !j.keys.isEnabled(s.records, j.session.Member()):
			q = queue{}
		default:
			if again = q.wait(j, s, turn); again <= 0 {
				given, q = j.after(j.acquire(record.Op{Kind: record.Absent, Key: j.keys.leader()}), given, q)
				again = lookInterval
			}
		}
		_ = pause(j.life, changed, again)
	}
}

// after is what a contender goes on with when it has led, or could not where l is nil.
func (j *Job) after(l *leadership, given member.Token, q queue) (member.Token, queue) {
	switch {
	case l == nil:
		return given, queue{since: time.Now(), last: q.last}
	case l.told.Err() != nil:
		return l.token, queue{last: true}
	default:
		return given, queue{}
	}
}

// queue is where a contender stands.
type queue struct {
	since time.Time // when the record was first seen absent, or tried for; zero: not yet
	last  bool      // it has just led and leaves the job to all others
}

// wait is how long others come first: each member tries at a time of its own, those that
// come later only where those before them do not.
func (q *queue) wait(j *Job, s sight, turn time.Duration) time.Duration {
	if q.since.IsZero() {
		q.since = time.Now()
	}
	line := j.keys.line(s.records, j.store.Members())
	rank := slices.Index(line, j.session.Member())
	if rank < 0 || q.last {
		rank = len(line)
	}
	return time.Until(q.since.Add(time.Duration(rank) * turn))
}

// acquire sets the record under a condition and leads, where this member is enabled in
// that very commit; nil where it could not.
func (j *Job) acquire(condition record.Op) *leadership {
	ctx, stop := context.WithTimeout(j.life, lookInterval)
	defer stop()
	id := j.session.Member()
	token, err := j.set(ctx, condition,
		record.Op{Kind: record.Absent, Key: j.keys.prefix + "disabled/" + id},
		record.Op{Kind: record.SetOwned, Key: j.keys.leader(), Value: []byte(id)})
	j.refuse(err)
	if err != nil {
		return nil
	}
	return j.lead(token)
}

// refuse notes what became of an attempt to lead, or to give that up.
func (j *Job) refuse(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refused = err
}

// lead leads until that is lost or given up, and drops the record of what was given up;
// nil where it cannot.
func (j *Job) lead(token member.Token) *leadership {
	l := &leadership{token: token, over: make(chan struct{})}
	defer close(l.over)
	l.told, l.giveUp = context.WithCancelCause(j.life)
	_ = j.hold(j.life, j.keys.leader(), token, func(ctx context.Context) error {
		l.held = ctx
		j.see(func(s *sight) { s.leads = l })
		select {
		case <-ctx.Done():
		case <-l.told.Done():
		}
		j.see(func(s *sight) { s.leads = nil })
		j.mu.Lock()
		work := l.work
		j.mu.Unlock()
		if work != nil {
			<-work
		}
		return nil
	})
	if l.held == nil {
		l.giveUp(nil)
		return nil
	}
	if l.told.Err() != nil && j.life.Err() == nil { // Close drops what a closed job has
		l.err = j.drop(j.keys.leader(), token)
		j.refuse(l.err)
	}
	return l
}
