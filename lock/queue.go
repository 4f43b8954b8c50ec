// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// maxQueue is how many places the queue of one name may have, so that no name takes the table of
// records from the others. Further members wait without a place.
const maxQueue = member.MaxRecords / 16

// caller is a call of Do. Its session owns a place in the queue, then a permit.
type caller struct {
	*Semaphore
	session record.Session
	place   *holding.Slot
	permit  *holding.Slot // the only permit that the session may own; nil if it owns none
	token   member.Token  // of the permit; zero if it is unknown
	late    bool          // another caller took the permit that this caller found free
}

func (c *caller) newSlot(key string) *holding.Slot {
	return &holding.Slot{Store: c.store, Session: c.session, Key: key}
}

// awaitPermit waits until this caller holds a permit, first for the earlier calls of this handle.
func (c *caller) awaitPermit(ctx context.Context) (lease *leader.Lease, err error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
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
		if lease != nil || err != nil && !holding.IsTransient(err) {
			stop()
		}
		return holding.LookInterval
	}
	holding.Watch(watched, c.store, c.queue, permitChanged, try)
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
	held, err := c.store.List(ctx, c.lock)
	if err != nil {
		return nil, err
	}
	var free []string
	for _, key := range c.permits {
		r, taken := holding.Find(held, key)
		switch {
		case !taken:
			free = append(free, key)
		case c.session.Owns(r): // the outcome of the commit was unknown, or the record is not trusted
			return c.setPermit(ctx, key, record.Op{Kind: record.Held, Key: key, Token: r.Token})
		}
	}
	if c.permit != nil { // the records may not show it yet
		if err := c.permit.SettleRecord(ctx); err != nil {
			return nil, err
		}
		c.permit = nil
	}
	p, err := c.findPlace(ctx)
	if err != nil {
		return nil, err
	}
	placed, place := !p.own.Token.IsZero(), record.Op{Kind: record.Absent, Key: c.place.Key}
	isTurn := !p.blocked && p.before < len(free) && !c.mayNotTake(held)
	switch {
	case isTurn && placed:
		place.Kind, place.Token = record.Held, p.own.Token
		return c.takePermit(ctx, free[p.before], place, record.Op{Kind: record.Drop, Key: place.Key})
	case isTurn && !c.late:
		lease, err := c.takePermit(ctx, free[p.before], place)
		c.late = errors.Is(err, record.ErrConflict) // or a distant member would lose each time
		return lease, err
	case !placed && p.before < maxQueue:
		_, err = c.place.Set(ctx, place)
	case placed && p.before >= maxQueue: // many joined the queue at the same time
		err = c.place.Drop(ctx, p.own.Token)
	}
	return nil, err
}

// mayNotTake reports whether there is a record that must not exist when a permit is taken. held is
// sorted by key.
func (c *caller) mayNotTake(held []member.Record) bool {
	return slices.ContainsFunc(c.shunned, func(key string) bool {
		_, exists := holding.Find(held, key)
		return exists
	})
}

// takePermit takes a free permit.
func (c *caller) takePermit(
	ctx context.Context, key string, ops ...record.Op,
) (*leader.Lease, error) {
	for _, absent := range append(c.shunned[:len(c.shunned):len(c.shunned)], key) {
		ops = append(ops, record.Op{Kind: record.Absent, Key: absent})
	}
	return c.setPermit(ctx, key, ops...)
}

// setPermit sets the permit under key. It returns nil if the permit was lost before it could be
// used.
func (c *caller) setPermit(
	ctx context.Context, key string, ops ...record.Op,
) (*leader.Lease, error) {
	if c.permit == nil { // otherwise the session may own the record, even if this commit fails
		c.permit = c.newSlot(key)
	}
	c.token = member.Token{}
	token, err := c.permit.Set(ctx, ops...)
	if err != nil {
		return nil, err
	}
	c.token = token
	c.place = c.newSlot(c.place.Key) // this commit dropped the record of the old place
	lease, err := c.session.Hold(ctx, key, token)
	if errors.Is(err, record.ErrNotHeld) {
		return nil, nil
	}
	return lease, err
}

// position is where a caller stands in the queue.
type position struct {
	own     member.Record // the record of its place; zero if it has none
	before  int           // number of callers before it; all of them if it has no place
	blocked bool          // one of them wants a record that this caller shuns
}

// findPlace returns the position of this caller. With a place, the number of callers before it
// never grows, because each new place has a greater token.
func (c *caller) findPlace(ctx context.Context) (p position, err error) {
	queue, err := c.store.List(ctx, c.queue)
	if err != nil {
		return p, err
	}
	own, placed := holding.Find(queue, c.place.Key)
	p.own = own
	for _, r := range queue {
		name := r.Key[len(c.queue):]
		// A name with a slash has another queue whose keys also begin with c.queue.
		isOther := strings.Contains(name, "/")
		isBefore := !placed || comparePlaces(r, own) < 0
		if isOther || !isBefore {
			continue
		}
		p.before++
		if strings.HasPrefix(name, reader) != (c.kind == reader) {
			p.blocked = true
		}
	}
	return p, nil
}

// comparePlaces compares places by the order in which they were committed. Places that were
// committed together have the same token.
func comparePlaces(a, b member.Record) int {
	return cmp.Or(a.Token.Compare(b.Token), cmp.Compare(a.Key, b.Key))
}

// leaveQueue drops the records of this caller. If ctx is done first, leaveQueue returns and the
// work continues in the background.
func (c *caller) leaveQueue(ctx context.Context) {
	done := make(chan struct{})
	c.running.Go(func() {
		defer close(done)
		ctx := context.WithoutCancel(ctx)
		if c.permit != nil {
			if !c.token.IsZero() {
				_ = c.permit.Drop(ctx, c.token) // if this fails, Close drops the record
			}
			_ = c.permit.Close(ctx) // returns when the store is closed, at the latest
		}
		_ = c.place.Close(ctx)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}
