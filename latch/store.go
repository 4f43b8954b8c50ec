// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"

	"github.com/athena-go/athena/member"
)

// Store is a table of records as one member sees it. Cluster and Memory have one, and
// the modules of contrib/ for etcd and ZooKeeper.
//
// Errors are those of package cluster: ErrConflict, ErrOwned, ErrNotHeld, ErrNoQuorum,
// ErrUnknownOutcome and ErrClosed, which says that it never will be otherwise. What else
// comes is taken for a fault that passes.
type Store interface {
	// Members lists those that are alive as far as is known, in any order: a hint.
	Members() []string
	// Records lists the records whose keys begin with prefix, sorted by key. It may show
	// what has changed since, but never what was not committed.
	Records(ctx context.Context, prefix string) ([]member.Record, error)
	// Watch says when to look again: at once, and when a record under prefix was set,
	// revoked or dropped. Nothing waits for who is slow. The channel has room for one,
	// and is closed soon after ctx ends, or when changes may have been missed.
	Watch(ctx context.Context, prefix string) <-chan struct{}
	// Session begins a session, which owns records apart from all others.
	Session() Session
}

// Session is what changes and holds records for one member. Its records end when the
// member does, or is cut off for too long; the session goes on and may set new ones.
type Session interface {
	// Member is the id of the member, one of Store.Members while it is alive.
	Member() string
	// Owns reports whether a record belongs to this session, held or not.
	Owns(r member.Record) bool
	// Commit makes the changes among ops where all conditions among them hold, all or
	// none, each key changed once at most. The token is that of what was set, greater
	// than each before it under that key. Where there is no majority to ask, it waits
	// for one until ctx ends. What is of unknown outcome is not made any more once a
	// later commit of the session was answered.
	Commit(ctx context.Context, ops ...Op) (member.Token, error)
	// Hold runs fn with a context that ends with ctx, or when the record that this
	// session set under key with token is no more its own to act on: before anybody
	// else can set it. The cause is why. It returns what fn does, or ErrNotHeld or the
	// cause of ctx where fn cannot run. It may block until the record can be relied on.
	Hold(
		ctx context.Context, key string, token member.Token, fn func(context.Context) error,
	) error
}

// Op is one part of a commit: a condition, or a change.
type Op struct {
	Kind  Kind
	Key   string
	Token member.Token // of Held
	Value []byte       // of Set and SetOwned
}

// Kind says what an Op is.
type Kind uint8

// The kinds of an Op.
const (
	// Absent wants no record under the key.
	Absent Kind = iota + 1
	// Held wants the record with this token, not revoked.
	Held
	// Set puts a record that stays until somebody drops it.
	Set
	// SetOwned puts a record that ends with the session.
	SetOwned
	// Drop takes the record away; it is no error when there is none. One of another
	// session is revoked: its contexts of Hold end, and then it goes.
	Drop
)
