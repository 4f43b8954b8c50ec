// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// maxPermits is half of the records that a cluster holds.
const maxPermits = member.MaxRecords / 2

// Semaphore has permits that the members share, and a queue of callers that wait for one. Its
// methods may be called concurrently. A function that holds a permit must not call Close of the
// Semaphore, which waits for the function.
type Semaphore struct {
	*calls
	store   record.Store
	name    string
	queue   string        // prefix of the keys of the records of waiting callers
	lock    string        // key of the lock with this name; prefix of the keys in permits
	permits []string      // keys of the records of the holders
	kind    string        // begins the names of its places in the queue; empty but for readers
	shunned []string      // keys of records that must not exist when a permit is taken
	turn    chan struct{} // semaphore of the calls of Do that wait; served in the order of their calls
}

// NewSemaphore returns the semaphore with the given name and at most 1,024 permits. All members
// must use the same number. The name is the name of a lock (see New), and a semaphore with one
// permit is this lock. If there are several permits, permit 2 is the lock "JOB/NAME/2".
// NewSemaphore returns an error if an argument is invalid. It does not block.
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
		permits: holding.PermitKeys(key, permits), turn: make(chan struct{}, 1),
	}
	job, rest := splitName(name)
	place, err := holding.QueueKey(job, rest, rand.Text())
	if err != nil || !member.IsKey(sem.permits[permits-1]) {
		return nil, fmt.Errorf("lock: the name %.300q is too long for a queue", name)
	}
	sem.queue = place[:strings.LastIndex(place, "/")+1]
	return sem, nil
}

// Do waits for a permit, runs fn, returns the permit, and returns the error of fn. The context of
// fn ends with ctx, with Close, or before another caller can hold the permit. The cause of the
// context is the reason. The token of the term is greater than those of all earlier holders of the
// same permit; tokens of different permits cannot be compared. Storage that compares tokens refuses
// late writes from a former holder.
//
// The calls of Do on one Semaphore get permits in the order of the calls. At most one of them has a
// place in the queue of the cluster, whose callers get permits in the order in which their places
// were committed; a call that finds enough free permits joins no queue. A caller leaves the queue
// when its ctx is done. If its member crashes or is cut off, the caller leaves the queue when the
// records of the member end. If the member returns, the caller joins the end of the queue.
//
// If fn did not run, the error is leader.ErrClosed, the error with which the store refused a
// record, or the cause of ctx. The cause of ctx comes with record.ErrNoQuorum or
// record.ErrUnknownOutcome if one of them is the reason. If ctx is done before the permit has been
// returned, Do returns, and the permit is returned in the background.
func (s *Semaphore) Do(
	ctx context.Context, fn func(ctx context.Context, term leader.Term) error,
) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.running.Done()
	ctx, stop := holding.WithStop(ctx, s.life)
	defer stop()
	c := &caller{Semaphore: s, session: s.store.Session(nil)}
	c.place = c.newSlot(s.queue + s.kind + rand.Text())
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
// returns an error with its cause, and may be called again. Without a majority the permits cannot
// be returned: pass a ctx with a timeout, and let the node leave afterwards, which drops its
// records.
func (s *Semaphore) Close(ctx context.Context) error {
	if err := s.closeCalls(ctx); err != nil {
		return fmt.Errorf("lock: close %q: not all permits are returned: %w", s.name, err)
	}
	return nil
}
