// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// Errors of a job, and causes of contexts that it passes on.
var (
	// ErrClosed says that the job was closed.
	ErrClosed = errors.New("latch: job is closed")
	// ErrYielded says that the member gave leadership up: the work returned, or
	// somebody called Abdicate.
	ErrYielded = errors.New("latch: leadership was given up")
	// ErrDisabled says that somebody disabled the member, which led.
	ErrDisabled = errors.New("latch: the member was disabled")
	// ErrRunning says that WhileLeader of this job runs already.
	ErrRunning = errors.New("latch: WhileLeader runs already")
	// ErrObserver says that the job was opened by who never leads it.
	ErrObserver = errors.New("latch: an observer never leads; open the job without Observer")
)

const (
	// lookInterval is how often a job looks at its records without being told that
	// they changed, and how long it waits after a refusal.
	lookInterval = time.Second
	// turnInterval is how much longer each next member leaves a job to those before it,
	// and startInterval that until it has seen a leader of the job: where a thousand jobs
	// start at once, a commit takes its time.
	turnInterval  = 100 * time.Millisecond
	startInterval = 500 * time.Millisecond
)

// Options say how a member opens a job.
type Options struct {
	// Disabled disables this member before it can lead, as Enable does: until somebody
	// enables it.
	Disabled bool
	// Observer opens the job without being a candidate, for who only looks or wants
	// its latches: IsLeader is false, and WhileLeader fails with ErrObserver.
	Observer bool
}

// Job is one of many things that need a leader of their own, as one member sees it. Its
// methods may be called from any goroutine, except Close from a function that runs under
// the job, and Do from one that has that latch: they would wait for themselves.
type Job struct {
	store   record.Store
	session record.Session
	name    string
	keys    keys
	observe bool // never leads

	life    context.Context // ends with the job; its cause is why
	end     context.CancelCauseFunc
	running sync.WaitGroup
	idle    chan struct{} // closed when nothing of a closed job runs

	mu      sync.Mutex
	closed  bool
	sight   sight
	changed chan struct{} // closed when there is another sight
	works   bool          // WhileLeader runs
	refused error         // by what the last attempt to lead, or to give that up, was
	locks   map[string]chan struct{}
	unsure  map[string]bool // keys under which this session may have a record
}

// sight is what a job sees.
type sight struct {
	records []member.Record // of the job
	leads   *leadership     // nil while this member does not lead
}

// Open opens a job by its name, the same on all members. From then on the member takes
// the lead whenever nobody has it, until Close, unless it is an Observer. Open blocks
// until it has looked at the records, and, where Disabled, until that is committed.
func Open(ctx context.Context, s record.Store, job string, o Options) (*Job, error) {
	k, err := keysOf(job)
	if err != nil {
		return nil, err
	}
	j := &Job{
		store: s, name: job, keys: k, observe: o.Observer,
		idle: make(chan struct{}), changed: make(chan struct{}),
		locks: map[string]chan struct{}{}, unsure: map[string]bool{},
	}
	j.session = s.Session(j.whyLost)
	j.life, j.end = context.WithCancelCause(context.Background())
	if err := j.refresh(ctx); err != nil {
		return nil, fmt.Errorf("latch: open %q: %w", job, err)
	}
	j.running.Go(j.follow)
	if o.Disabled {
		if err := j.Enable(ctx, j.session.Member(), false); err != nil {
			return nil, errors.Join(fmt.Errorf("latch: open %q: %w", job, err), j.Close(ctx))
		}
	}
	if !o.Observer {
		j.running.Go(j.contend)
	}
	return j, nil
}

// Close steps down, ends all contexts with ErrClosed, blocks until the functions that
// run under them have returned, and drops what the job holds. Where ctx ends first, the
// error says so, and another Close goes on. Without a majority nothing can be dropped:
// bound it, and let the node leave then, which ends what it holds too.
func (j *Job) Close(ctx context.Context) error {
	j.mu.Lock()
	first := !j.closed
	j.closed = true
	j.mu.Unlock()
	if first {
		j.end(ErrClosed)
		go func() {
			j.running.Wait()
			close(j.idle)
		}()
	}
	select {
	case <-j.idle:
	case <-ctx.Done():
		return fmt.Errorf("latch: close %q: a function goes on: %w", j.name, context.Cause(ctx))
	}
	for {
		err := j.leave(ctx)
		switch {
		case err == nil || errors.Is(err, leader.ErrClosed):
			return nil // what a closed store had ends by itself
		case !passes(err) || ctx.Err() != nil:
			return fmt.Errorf("latch: close %q: %w", j.name, err)
		}
		_ = pause(ctx, nil, lookInterval)
	}
}

// leave drops what a closed job holds.
func (j *Job) leave(ctx context.Context) error {
	j.mu.Lock()
	unsure := slices.Collect(maps.Keys(j.unsure))
	j.mu.Unlock()
	for _, key := range unsure {
		if err := j.settle(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// begin lets something run under the job, which calls running.Done when it returns.
func (j *Job) begin() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	j.running.Add(1)
	return nil
}

// over is why nothing more may be done for a caller; nil when it may.
func (j *Job) over(ctx context.Context) error {
	if err := context.Cause(j.life); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// follow keeps the sight fresh. It looks when it is told to, and also when it is not.
func (j *Job) follow() {
	for j.life.Err() == nil {
		ctx, stop := context.WithCancel(j.life)
		changed := j.store.Watch(ctx, j.keys.prefix)
		for lost := false; !lost && ctx.Err() == nil; {
			var open bool
			wait := time.NewTimer(lookInterval)
			select {
			case _, open = <-changed:
				lost = !open
			case <-wait.C:
			case <-ctx.Done():
			}
			wait.Stop()
			_ = j.refresh(ctx) // and again at the next change, or soon
		}
		stop()
		for range changed { // until nobody watches
		}
		_ = pause(j.life, nil, lookInterval)
	}
}

// refresh looks at the records. A store that was closed ends the job.
func (j *Job) refresh(ctx context.Context) error {
	records, err := j.store.List(ctx, j.keys.prefix)
	switch {
	case errors.Is(err, leader.ErrClosed):
		j.end(fmt.Errorf("latch: the store of %q: %w", j.name, err))
		return err
	case err != nil:
		return err
	}
	j.see(func(s *sight) { s.records = records })
	return nil
}

// look is what the job sees, and what is closed when it sees something else.
func (j *Job) look() (sight, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sight, j.changed
}

// see changes what the job sees.
func (j *Job) see(change func(*sight)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.sight)
	close(j.changed)
	j.changed = make(chan struct{})
}

// wait blocks until changed is closed, or for lookInterval; the end of ctx or of the job
// is an error.
func (j *Job) wait(ctx context.Context, changed <-chan struct{}) error {
	ctx, stop := until(ctx, j.life)
	defer stop()
	_ = pause(ctx, changed, lookInterval)
	return j.over(ctx)
}

// hold runs fn while this member holds the record.
func (j *Job) hold(
	ctx context.Context, key string, token member.Token, fn func(context.Context) error,
) error {
	l, err := j.session.Hold(ctx, key, token)
	if err != nil {
		return err
	}
	return l.Term().Do(ctx, fn)
}

// release drops a record of this session; nil when it is gone.
func (j *Job) release(ctx context.Context, key string, token member.Token) error {
	_, err := j.session.Commit(ctx, record.Op{Kind: record.Held, Key: key, Token: token},
		record.Op{Kind: record.Drop, Key: key})
	if errors.Is(err, record.ErrConflict) {
		return nil
	}
	return err
}

// pause blocks for d, or until changed is closed or ctx ends, whose cause is the error.
func pause(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// until is a context that ends with ctx or with other, and what ends it.
func until(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
