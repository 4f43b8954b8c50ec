// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// Client runs operations on one key, one after the other.
type Client struct {
	ID    int64 // differs from those of all other clients of the key
	Store record.Store
	Rand  *rand.Rand
	Now   func() int64 // a clock that all clients of the key share
	// Record records a line of an operation: when it begins, when it ends, and every Tick while a lock
	// is held.
	Record func(Operation)
	Tick   time.Duration

	key  string
	seq  int64
	seen member.Token // of the record that this client set or listed last
}

// longest bounds the time that a client waits for a commit, that it holds a lock, and that it waits
// between two operations.
const longest = 3 * time.Second

// beginOperation records that an operation begins.
func (c *Client) beginOperation(o Operation) *Operation {
	c.seq++
	o.Client, o.Seq, o.Key, o.Call = c.ID, c.seq, c.key, c.Now()
	c.Record(o)
	return &o
}

// endOperation records that an operation has ended.
func (c *Client) endOperation(o *Operation, result Result) {
	o.Result, o.Ended = result, c.Now()
	if result == Unknown {
		o.Ended = Forever
	}
	c.Record(*o)
}

// pause waits for at most d.
func (c *Client) pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(time.Duration(c.Rand.Int64N(int64(d)))):
	case <-ctx.Done():
	}
}

// UseRecord sets, changes, checks and drops the record under key until ctx is done.
func (c *Client) UseRecord(ctx context.Context, key string) {
	c.key, c.seen = key, member.Token{}
	s := c.Store.Session(nil)
	for ctx.Err() == nil {
		if c.Rand.IntN(3) == 0 {
			c.listRecords(ctx)
		} else {
			c.commitRecord(ctx, s)
		}
		c.pause(ctx, longest/5)
	}
}

func (c *Client) listRecords(ctx context.Context) {
	o := c.beginOperation(Operation{Kind: List})
	r, err := record.Get(ctx, c.Store, c.key)
	if err != nil && !errors.Is(err, record.ErrAbsent) {
		c.endOperation(o, Nothing)
		return
	}
	c.seen, o.Token, o.Value = r.Token, r.Token, string(r.Value)
	c.endOperation(o, Done)
}

// commitRecord commits a drawn operation.
func (c *Client) commitRecord(ctx context.Context, s record.Session) {
	d := Operation{Kind: Create}
	condition := []record.Op{{Kind: record.Absent, Key: c.key}}
	if !c.seen.IsZero() {
		d.Kind = []Kind{Create, Set, Update, Update, Drop, Check}[c.Rand.IntN(6)]
	}
	var change []record.Op
	switch d.Kind {
	case Create, Set, Update:
		d.Value = fmt.Sprintf("%d-%d", c.ID, c.seq)
		change = []record.Op{{Kind: record.Set, Key: c.key, Value: []byte(d.Value)}}
	case Drop:
		change = []record.Op{{Kind: record.Drop, Key: c.key}}
	}
	switch d.Kind {
	case Set:
		condition = nil
	case Update, Drop, Check:
		d.Given = c.seen
		condition = []record.Op{{Kind: record.Held, Key: c.key, Token: c.seen}}
	}
	ctx, stop := context.WithTimeout(ctx, longest)
	defer stop()
	o := c.beginOperation(d)
	token, err := s.Commit(ctx, append(condition, change...)...)
	switch {
	case errors.Is(err, record.ErrConflict):
		c.endOperation(o, Conflict)
		return
	case errors.Is(err, record.ErrUnknownOutcome):
		c.endOperation(o, Unknown)
		return
	case err != nil:
		c.endOperation(o, Nothing)
		return
	case d.Value != "":
		c.seen, o.Token = token, token
	}
	c.endOperation(o, Done)
}

// UseLock acquires and releases the lock until ctx is done.
func (c *Client) UseLock(ctx context.Context, name string) error {
	c.key = name
	l, err := lock.New(c.Store, name)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		acquire := c.beginOperation(Operation{Kind: Acquire})
		var release *Operation
		_ = l.Do(ctx, func(ctx context.Context, term leader.Term) error {
			release = c.holdLock(ctx, term, acquire)
			return nil
		})
		switch {
		case release == nil:
			c.endOperation(acquire, Nothing)
		case ctx.Err() != nil: // Do did not wait until the lock was released
			release.Ended, release.Result = Forever, Done
			c.Record(*release)
		default:
			c.endOperation(release, Done)
		}
		c.pause(ctx, longest/5)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	_ = l.Close(ctx) // without a majority it cannot be released; the node will leave
	return nil
}

// holdLock uses the lock until its term ends, and returns the operation that releases the lock. The
// term may have ended at any time after the last check that found it valid.
func (c *Client) holdLock(ctx context.Context, term leader.Term, acquire *Operation) *Operation {
	until := c.Now() + c.Rand.Int64N(int64(longest))
	var release *Operation
	for {
		now := c.Now()
		if !term.Valid() || ctx.Err() != nil || now > until {
			return release
		}
		if release == nil {
			acquire.Token = term.Token()
			c.endOperation(acquire, Done)
			release = c.beginOperation(Operation{Kind: Release})
		}
		release.Call = now
		c.Record(*release)
		select {
		case <-time.After(c.Tick):
		case <-ctx.Done():
		}
	}
}
