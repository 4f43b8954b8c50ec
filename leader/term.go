// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/athena-go/athena/member"
)

// Holder is a process that leads or holds a lock. The zero Holder stands for none.
type Holder struct {
	ID    string // of the member; in a cluster its address as text
	Token member.Token
}

// Term is one period in which one process leads, as this process sees it. Terms are small
// values, comparable with ==. The zero Term is never valid.
type Term struct{ lease *Lease }

// Holder returns the process that leads and its token.
func (t Term) Holder() Holder {
	if t.lease == nil {
		return Holder{}
	}
	return t.lease.holder
}

// Leader returns the id of the member that leads; in a cluster its address as text.
func (t Term) Leader() string { return t.Holder().ID }

// Token returns the fencing token, which grows with every leader; see member.Token. Two
// terms of one leader share it if the lease lapsed in between and no other process led.
func (t Term) Token() member.Token { return t.Holder().Token }

// Valid reports whether this process leads at this moment. It reads the clock and does not
// block. It is false in every other process, and once false it stays false: if the process
// leads again, that is another term.
//
// In a virtual machine that was suspended together with its clocks, Valid may be true for a
// moment although another leader has a term, unless the wall clock is set forward first
// (docs/safety.md). Therefore storage must compare tokens.
func (t Term) Valid() bool { return t.lease != nil && t.lease.Remaining() > 0 }

// Deadline returns when the lease ends unless it is extended. It is zero once the lease has
// ended, for a strategy without leases, and in every process but the leader.
func (t Term) Deadline() time.Time {
	if t.lease == nil {
		return time.Time{}
	}
	left := t.lease.Remaining()
	if left <= 0 || left == unlimited {
		return time.Time{}
	}
	return time.Now().Add(left)
}

// Done returns a channel that is closed when the term has ended as far as this process
// knows: in the leader before its lease ends, but late by any pause of the whole process.
// It is nil for the zero Term.
func (t Term) Done() <-chan struct{} {
	if t.lease == nil {
		return nil
	}
	return t.lease.done
}

// Err returns why the term has ended, or nil while it lasts.
func (t Term) Err() error {
	if t.lease == nil {
		return nil
	}
	return t.lease.err()
}

// Do runs fn with a context that ends with ctx or with the term, and returns the error of
// fn. If the term ends, the cause of the context is Err. If the term has already ended, Do
// returns Err without running fn; if this process does not lead by the term, it returns
// ErrNotLeader. Resign and Close wait for fn.
func (t Term) Do(ctx context.Context, fn func(context.Context) error) error {
	if t.lease == nil || !t.lease.own {
		return t.notLeader()
	}
	ctx, end := t.lease.beginUse(ctx)
	defer end()
	if err := t.Err(); err != nil {
		return err
	}
	return fn(ctx)
}

// notLeader returns the error if this process does not lead by the term. If its own term
// has ended, the error names no other process to ask.
func (t Term) notLeader() error {
	if t.Leader() == "" || t.isOwn() {
		return ErrNotLeader
	}
	return fmt.Errorf("%w; ask %s", ErrNotLeader, t.Leader())
}

// isLive reports whether there is a term that has not ended.
func (t Term) isLive() bool { return t.lease != nil && !t.lease.Ended() }

// isOwn reports whether this process leads by the term.
func (t Term) isOwn() bool { return t.lease != nil && t.lease.own }
