// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"iter"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// Store is a table of records as one member sees it. Its methods may be called from any
// goroutine.
type Store interface {
	// Members returns the ids of the members that are believed to be alive, in any order.
	Members() []string
	// List returns the records whose keys begin with prefix, sorted by key. It shows what
	// is committed, as far as this member knows: another may have changed it since. The
	// caller must not change the values. The error is ErrClosed if the Store has ended.
	List(ctx context.Context, prefix string) ([]member.Record, error)
	// Watch returns a channel that receives when List may return something new: at the
	// start, and after a record under prefix was set, revoked or dropped. The channel has
	// room for one value and nothing waits for a slow reader. It is closed after ctx ends,
	// or when the Store may have missed changes: then watch again.
	Watch(ctx context.Context, prefix string) <-chan struct{}
	// Session begins a session, which owns records apart from all others. It asks no other
	// member. If lost is not nil, it gives the reason why a term of Hold ends after another
	// session changed the record; see LostFunc.
	Session(lost LostFunc) Session
}

// LostFunc returns why this session lost the record under key, given all records as they
// are now, sorted by key. If it returns nil, the reason is ErrNotHeld. It must not block.
type LostFunc func(key string, now []member.Record) error

// Session sets and holds records for one member. Its records end when the member ends or
// is cut off for too long; the session can set new ones after that.
type Session interface {
	// Member returns the id of the member, one of Store.Members while it is alive.
	Member() string
	// Owns reports whether a record belongs to this session.
	Owns(r member.Record) bool
	// Commit makes the changes among ops if all conditions among them are true: all changes
	// or none, each key at most once. It blocks until that is durable. The token is that of
	// the records that were set. While no majority can be reached, Commit waits for one
	// until ctx ends.
	//
	// From the call on the session must not act on what it held under the changed keys,
	// whatever the outcome: their terms end with ErrReleased.
	//
	// After ErrUnknownOutcome the changes may have been made; those of a request that a
	// later Commit of the session has overtaken are never made afterwards. After any other
	// error nothing was changed: ErrConflict, ErrOwned, ErrTooLarge, ErrBusy, ErrNotActive,
	// ErrNoQuorum with the cause of ctx, or ErrClosed.
	Commit(ctx context.Context, ops ...Op) (member.Token, error)
	// Hold returns the lease by which the session may act on the record that it set under
	// key with token. Its Term ends before another session can set the record, and says why
	// it ended. The caller may End the lease early, by a reason of its own, but not Extend
	// it. While a lease lasts, another call returns the same one. Hold may block until the
	// record can be relied on; the error is ErrNotHeld or the cause of ctx.
	Hold(ctx context.Context, key string, token member.Token) (*leader.Lease, error)
}

// Op is one part of a commit: a condition or a change.
type Op struct {
	Kind  Kind
	Key   string
	Token member.Token // of Held
	Value []byte       // of Set and SetOwned
}

// Kind is the kind of an Op.
type Kind uint8

// The kinds of an Op.
const (
	// Absent is the condition that there is no record under the key.
	Absent Kind = iota + 1
	// Held is the condition that the record under the key has this token and is not revoked.
	Held
	// Set puts a record that stays until it is dropped.
	Set
	// SetOwned puts a record that ends with the session.
	SetOwned
	// Drop removes the record, if there is one. A record of another session is revoked
	// first: its terms end, and it is removed when they have.
	Drop
)

// IsChange reports whether an Op changes the record under its key.
func (o Op) IsChange() bool { return o.Kind == Set || o.Kind == SetOwned || o.Kind == Drop }

// Get returns the record under key. The error is ErrAbsent if there is none.
func Get(ctx context.Context, s Store, key string) (member.Record, error) {
	records, err := s.List(ctx, key)
	if err != nil {
		return member.Record{}, err
	}
	r, ok := member.Records(records).Find(key)
	if !ok {
		return member.Record{}, absentError(key)
	}
	return r, nil
}

// Watch yields the records whose keys begin with prefix, sorted by key, and yields them
// again after each change, until ctx or the store ends. A slow reader misses tables in
// between, never the last.
func Watch(ctx context.Context, s Store, prefix string) iter.Seq[[]member.Record] {
	return func(yield func([]member.Record) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		for ctx.Err() == nil {
			for range s.Watch(ctx, prefix) {
				records, err := s.List(ctx, prefix)
				if err != nil || !yield(records) {
					return
				}
			}
		}
	}
}
