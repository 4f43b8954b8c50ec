// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// Exclusive checks that leaders of one job, or holders of one lock, do not overlap. The zero
// Exclusive is ready to use.
type Exclusive struct {
	mu    sync.Mutex
	last  context.Context
	token member.Token
}

// Enter records that work begins. It returns an error if the context of the previous work has not
// ended, or if the token is smaller than the previous token. Two terms have the same token if a
// lease lapsed between them and no other member led.
func (x *Exclusive) Enter(ctx context.Context, token member.Token) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	before, was := x.last, x.token
	x.last, x.token = ctx, token
	switch {
	case before != nil && before.Err() == nil:
		return fmt.Errorf("recordtest: the term with token %v begins before that with token %v has ended",
			token, was)
	case token.Less(was):
		return fmt.Errorf("recordtest: the token decreased to %v from %v", token, was)
	}
	return nil
}

// EnterTerm is Enter with the token of a term.
func (x *Exclusive) EnterTerm(ctx context.Context, term leader.Term) error {
	return x.Enter(ctx, term.Token())
}

// Counter is a Store that counts commits.
type Counter struct {
	record.Store
	commits atomic.Int64
}

// Count returns a Store that counts the commits made through it.
func Count(s record.Store) *Counter { return &Counter{Store: s} }

// Commits returns the number of commits, including those that were refused.
func (c *Counter) Commits() int { return int(c.commits.Load()) }

// Session implements record.Store.
func (c *Counter) Session(lost record.LostFunc) record.Session {
	return counted{c.Store.Session(lost), c}
}

type counted struct {
	record.Session
	counter *Counter
}

func (s counted) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	s.counter.commits.Add(1)
	return s.Session.Commit(ctx, ops...)
}

// RunHeld runs fn while the session owns a record.
func RunHeld(
	ctx context.Context, s record.Session, key string, token member.Token,
	fn func(context.Context) error,
) error {
	l, err := s.Hold(ctx, key, token)
	if err != nil {
		return err
	}
	return l.Term().Do(ctx, fn)
}
