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
	// Members returns the ids of the members that appear to be alive, in any order.
	Members() []string
	// List returns the records whose keys begin with prefix, sorted by key. The records are committed,
	// but another member may have changed them since. The caller must not modify the values. The error
	// is ErrClosed if the Store is closed.
	List(ctx context.Context, prefix string) ([]member.Record, error)
	// Watch returns a channel that receives a value initially, and after a record whose key begins
	// with prefix was set, revoked or dropped. The caller then calls List. The channel buffers one
	// value, and a slow reader blocks nothing. The channel is closed once ctx is done, or if the Store
	// may have missed changes; then call Watch again.
	Watch(ctx context.Context, prefix string) <-chan struct{}
	// Session returns a new session, which owns records independently of all other sessions. It does
	// not contact other members. If another session changes a record that this session holds, the term
	// of the lease ends with the error that lost returns, unless lost is nil.
	Session(lost LostFunc) Session
}

// LostFunc returns the reason why this session lost the record under key. now contains all current
// records, sorted by key. If it returns nil, the error is ErrNotHeld. It must not block.
type LostFunc func(key string, now []member.Record) error

// Session sets and holds records for one member. The records of a session end when the member stops
// or is disconnected for too long; after a disconnection the session can set new records.
type Session interface {
	// Member returns the id of the member, which Store.Members lists while the member is alive.
	Member() string
	// Owns reports whether a record belongs to this session.
	Owns(r member.Record) bool
	// Commit makes all changes among ops if all conditions among them are true. Otherwise it makes no
	// change. Each key may occur only once. Commit blocks until the changes are durable, and returns
	// the token of the records that it set. If no majority can be reached, it waits for one until ctx
	// is done.
	//
	// When Commit is called, the terms of the member under the changed keys end with ErrReleased,
	// whatever the outcome, unless a condition on the key is false while the record exists.
	//
	// After ErrUnknownOutcome the changes may have been made. They may also be made later, but not
	// after a later Commit of the session. After any other error nothing has changed: ErrConflict,
	// ErrOwned, ErrTooLarge, ErrTableFull, ErrBusy, ErrNotActive, ErrNoQuorum with the cause of ctx,
	// or ErrClosed.
	Commit(ctx context.Context, ops ...Op) (member.Token, error)
	// Hold returns the lease under which the session may act on the record that it set under key with
	// token. The lease's Term ends before another session can set the record; Term.Err is the reason.
	// The caller may End the lease early, but must not Extend it. While the lease lasts, further calls
	// return the same lease. Hold may block until the session can rely on the record; the error is
	// ErrNotHeld or the cause of ctx.
	Hold(ctx context.Context, key string, token member.Token) (*leader.Lease, error)
}

// Op is one part of a commit: a condition or a change.
type Op struct {
	Kind  Kind
	Key   string
	Token member.Token // set for Held
	Value []byte       // value for Set and SetOwned
}

// Kind is the kind of an Op.
type Kind uint8

// The kinds of an Op.
const (
	// Absent is the condition that there is no record under the key.
	Absent Kind = iota + 1
	// Held is the condition that the record under the key has the token and is not revoked.
	Held
	// Set sets a record that lasts until it is dropped.
	Set
	// SetOwned sets a record that ends with the member of the session.
	SetOwned
	// Drop removes the record, if there is one. A record of another session is first revoked, and
	// then removed when its terms have ended.
	Drop
)

// IsChange reports whether an Op changes the record under its key.
func (o Op) IsChange() bool { return o.Kind == Set || o.Kind == SetOwned || o.Kind == Drop }

// Get returns the record under key. The error is ErrAbsent if the record does not exist.
func Get(ctx context.Context, s Store, key string) (member.Record, error) {
	records, err := s.List(ctx, key)
	if err != nil {
		return member.Record{}, err
	}
	if len(records) == 0 || records[0].Key != key { // the first key that may have the prefix
		return member.Record{}, absentError(key)
	}
	return records[0], nil
}

// Watch yields the records whose keys begin with prefix, sorted by key, and again after each
// change, until ctx is done or the store is closed. A slow reader may miss versions of the table,
// but never the last version.
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
