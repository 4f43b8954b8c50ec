// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/athena-go/athena/member"
)

// Holder is a process that leads or holds a lock. The zero Holder stands for no process.
type Holder struct {
	ID    string // id of the member; in a cluster its address, for member.ParseAddress
	Token member.Token
}

// Term is a period in which one process leads, as this process sees it. Terms are small values that
// can be compared with ==. The zero Term is never valid.
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

// Token returns the fencing token, which grows with every leader; see member.Token. Two terms of
// one leader have the same token if the lease lapsed in between and no other process led.
func (t Term) Token() member.Token { return t.Holder().Token }

// Valid reports whether this process currently leads. It reads the clock and does not block. It
// returns false in every other process. Once it has returned false, it always returns false: if the
// process leads again, it leads in another term.
//
// After a virtual machine was suspended together with its clocks, Valid may be true for a moment
// although another process leads. This cannot happen if the wall clock is set forward first
// (docs/safety.md). Therefore storage must compare tokens.
func (t Term) Valid() bool { return t.lease != nil && t.lease.Remaining() > 0 }

// Deadline returns the time at which the lease ends unless it is extended. It returns the zero time
// if the lease has ended or the strategy has no leases, and in every process except the leader.
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

// Done returns a channel that is closed when this process finds that the term has ended. In the
// leader, it is closed before the lease ends, unless the whole process is paused. It is nil for the
// zero Term.
func (t Term) Done() <-chan struct{} {
	if t.lease == nil {
		return nil
	}
	return t.lease.done
}

// Err returns the reason why the term has ended, or nil if it has not ended.
func (t Term) Err() error {
	if t.lease == nil {
		return nil
	}
	return t.lease.err()
}

// Do runs fn with a context that ends with ctx or with the term, and returns the error of fn. If
// the term ends, the cause of the context is the result of Err. If the term has already ended, Do
// returns Err without running fn; if this process is not the leader of the term, Do returns
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

// notLeader returns the error for a caller if this process does not lead in the term. If its own
// term has ended, the error names no process to ask.
func (t Term) notLeader() error {
	if t.Leader() == "" || t.isOwn() {
		return ErrNotLeader
	}
	return fmt.Errorf("%w; ask %s", ErrNotLeader, t.Leader())
}

// isLive reports whether the term is not zero and has not ended.
func (t Term) isLive() bool { return t.lease != nil && !t.lease.Ended() }

// isOwn reports whether this process is the leader of the term.
func (t Term) isOwn() bool { return t.lease != nil && t.lease.own }
