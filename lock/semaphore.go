// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// maxPermits is half of the records that a cluster holds.
const maxPermits = member.MaxRecords / 2

// Semaphore has permits that the members share, and a queue of callers that wait for one. With one
// permit it is a fair mutex. Its methods may be called concurrently. A function that holds a permit
// must not call Close of the Semaphore, which waits for the function.
type Semaphore struct {
	*calls
	store   record.Store
	name    string
	queue   string   // prefix of the keys of the records of waiting callers
	lock    string   // key of the lock with this name; prefix of the keys in permits
	permits []string // keys of the records of the holders
}

// NewSemaphore returns the semaphore with the given name and at most 1,024 permits. All members
// must use the same number. The name is the name of a lock (see New). The only permit of a fair
// mutex is this lock, and Lock.Do competes for it without queueing. If there are several permits,
// permit 2 is the lock "JOB/NAME/2". NewSemaphore returns an error if an argument is invalid. It
// does not block.
func NewSemaphore(s record.Store, name string, permits int) (*Semaphore, error) {
	if permits < 1 || permits > maxPermits {
		return nil, fmt.Errorf("lock: semaphore %.300q: %d permits, want 1 to %d", name, permits,
			maxPermits)
	}
	key, err := Key(name)
	if err != nil {
		return nil, err
	}
	sem := &Semaphore{
		calls: newCalls(), store: s, name: name, lock: key,
		permits: jobrecord.PermitKeys(key, permits),
	}
	job, rest := splitName(name)
	place, err := jobrecord.QueueKey(job, rest, rand.Text())
	if err != nil || !member.IsKey(sem.permits[permits-1]) {
		return nil, fmt.Errorf("lock: the name %.300q is too long for a semaphore", name)
	}
	sem.queue = place[:strings.LastIndex(place, "/")+1]
	return sem, nil
}

// Do waits for a permit, runs fn, returns the permit, and returns the error of fn. The context of
// fn ends with ctx, with Close, or before another caller can hold the permit. The cause of the
// context is the reason. The token of the term is greater than those of all earlier holders of the
// same permit; tokens of different permits cannot be compared.
//
// Callers get permits in the order in which their requests were committed. A caller leaves the
// queue when its ctx is done. If the member of a caller crashes or is cut off, the caller leaves
// the queue when the records of the member end. If the member returns, the caller joins the end of
// the queue.
//
// If fn did not run, the error is as in Lock.Do. If ctx is done before the permit has been
// returned, Do returns, and the permit is returned in the background.
func (s *Semaphore) Do(
	ctx context.Context, fn func(ctx context.Context, term leader.Term) error,
) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.running.Done()
	ctx, stop := jobrecord.WithStop(ctx, s.life)
	defer stop()
	c := &caller{Semaphore: s, session: s.store.Session(nil)}
	c.place = c.newSlot(s.queue + rand.Text())
	defer c.leaveQueue(ctx)
	for {
		lease, err := c.awaitPermit(ctx)
		if err != nil {
			return fmt.Errorf("lock: %q: %w", s.name, err)
		}
		ran, term := false, lease.Term()
		err = term.Do(ctx, func(ctx context.Context) error {
			ran = true
			return fn(ctx, term)
		})
		if ran {
			return err
		}
	}
}

// Close ends the contexts of the functions that hold permits with leader.ErrClosed, makes all
// callers leave the queue, and waits until all permits are returned. If ctx is done first, Close
// returns an error with its cause, and may be called again. See Lock.Close.
func (s *Semaphore) Close(ctx context.Context) error {
	if err := s.closeCalls(ctx); err != nil {
		return fmt.Errorf("lock: close %q: not all permits are returned: %w", s.name, err)
	}
	return nil
}

// caller is a call of Do. Its session owns a place in the queue, then a permit.
type caller struct {
	*Semaphore
	session record.Session
	place   *jobrecord.Slot
	tried   []*jobrecord.Slot // the permits that the session may own
	token   member.Token      // token of the last permit in tried; zero if unknown
}

func (c *caller) newSlot(key string) *jobrecord.Slot {
	return &jobrecord.Slot{Store: c.store, Session: c.session, Key: key}
}

// awaitPermit waits until this caller holds a permit. It joins the queue if necessary.
func (c *caller) awaitPermit(ctx context.Context) (lease *leader.Lease, err error) {
	watched, stop := context.WithCancel(ctx)
	defer stop()
	permitChanged := make(chan struct{}, 1)
	go func() {
		for range record.Watch(watched, c.store, c.lock) {
			select {
			case permitChanged <- struct{}{}:
			default:
			}
		}
	}()
	try := func(ctx context.Context) time.Duration {
		lease, err = c.tryPermit(ctx)
		if lease != nil || err != nil && !jobrecord.IsTransient(err) {
			stop()
		}
		return jobrecord.LookInterval
	}
	jobrecord.Watch(watched, c.store, c.queue, permitChanged, try)
	switch cause := context.Cause(ctx); {
	case lease != nil || cause == nil || errors.Is(err, record.ErrNoQuorum):
		return lease, err
	case errors.Is(err, record.ErrUnknownOutcome):
		return nil, fmt.Errorf("%w: %w", err, cause)
	default:
		return nil, cause
	}
}

// tryPermit takes a permit if it is this caller's turn. It returns nil if the caller must wait.
func (c *caller) tryPermit(ctx context.Context) (*leader.Lease, error) {
	var free []string
	for _, key := range c.permits {
		r, err := record.Get(ctx, c.store, key)
		switch {
		case errors.Is(err, record.ErrAbsent):
			free = append(free, key)
		case err != nil:
			return nil, err
		case c.session.Owns(r) && !r.Revoked: // the outcome of the commit was unknown
			return c.holdPermit(ctx, key, r.Token)
		}
	}
	rank, own, err := c.findPlace(ctx)
	switch {
	case err != nil:
		return nil, err
	case own.Token.IsZero():
		_, err = c.place.Set(ctx, record.Op{Kind: record.Absent, Key: c.place.Key})
		return nil, err
	case rank >= len(free):
		return nil, nil
	}
	key := free[rank]
	permit := c.newSlot(key)
	token, err := permit.Set(ctx, record.Op{Kind: record.Absent, Key: key},
		record.Op{Kind: record.Held, Key: c.place.Key, Token: own.Token},
		record.Op{Kind: record.Drop, Key: c.place.Key})
	if err == nil || errors.Is(err, record.ErrUnknownOutcome) {
		c.tried, c.token = append(c.tried, permit), token
	}
	if err != nil {
		return nil, err
	}
	c.place = c.newSlot(c.place.Key) // this commit dropped the record of the old place
	return c.holdPermit(ctx, key, token)
}

// holdPermit returns nil if the permit was lost before it could be used.
func (c *caller) holdPermit(
	ctx context.Context, key string, token member.Token,
) (*leader.Lease, error) {
	lease, err := c.session.Hold(ctx, key, token)
	if errors.Is(err, record.ErrNotHeld) {
		return nil, nil
	}
	return lease, err
}

// findPlace returns the number of callers before this one in the queue, and the record of this
// caller's place. The record is zero if this caller has no place. The number never grows, because
// each new place has a greater token.
func (c *caller) findPlace(ctx context.Context) (rank int, own member.Record, err error) {
	queue, err := c.store.List(ctx, c.queue)
	if err != nil {
		return 0, own, err
	}
	own, _ = jobrecord.Find(queue, c.place.Key)
	for _, r := range queue {
		// A name with a slash has another queue whose keys also begin with c.queue.
		isOther := strings.Contains(r.Key[len(c.queue):], "/")
		if !isOther && cmp.Or(r.Token.Compare(own.Token), cmp.Compare(r.Key, own.Key)) < 0 {
			rank++
		}
	}
	return rank, own, nil
}

// leaveQueue drops the records of this caller. If ctx is done first, leaveQueue returns and the
// work continues in the background.
func (c *caller) leaveQueue(ctx context.Context) {
	done := make(chan struct{})
	c.running.Go(func() {
		defer close(done)
		ctx := context.WithoutCancel(ctx)
		if !c.token.IsZero() {
			_ = c.tried[len(c.tried)-1].Drop(ctx, c.token) // if this fails, Close drops the record
		}
		for _, s := range append(c.tried, c.place) {
			_ = s.Close(ctx) // returns when the store is closed, at the latest
		}
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}
