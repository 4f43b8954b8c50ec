// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/athena-go/athena/member"
)

// Holder is a process that leads, or holds a lock. The zero Holder is none.
type Holder struct {
	ID    string // of the member; in a cluster, its address as text
	Token member.Token
}

// Term is one period in which one process leads, as this process sees it. Terms are small
// values to pass on; two are equal if they are the same period. The zero Term is never
// valid.
type Term struct{ lease *Lease }

// Holder is the process that leads, with its token.
func (t Term) Holder() Holder {
	if t.lease == nil {
		return Holder{}
	}
	return t.lease.holder
}

// Leader is the id of the member that leads; in a cluster, its address as text.
func (t Term) Leader() string { return t.Holder().ID }

// Token is the fencing token. It grows with every leader; see member.Token. Two terms of
// one leader share it if the lease lapsed in between and no other process led.
func (t Term) Token() member.Token { return t.Holder().Token }

// Valid reports whether this process leads at this moment. It reads the clock. It is false
// in every process but the leader, and once false it is never true again: if the process
// leads again after its lease lapsed, another term begins. In a virtual machine that was
// stopped together with its clocks, Valid may be true for a moment beside the term of
// another leader, unless the wall clock is set forward first (docs/safety.md): storage must
// compare tokens.
func (t Term) Valid() bool { return t.lease != nil && t.lease.Remaining() > 0 }

// Deadline is when the lease ends unless it is extended. It is zero once the lease has
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

// Done is closed when the term is over as far as this process knows: in the leader before
// its lease ends, or late by the length of a pause of the whole process. It is nil for the
// zero Term.
func (t Term) Done() <-chan struct{} {
	if t.lease == nil {
		return nil
	}
	return t.lease.done
}

// Err is why the term is over, nil while it lasts.
func (t Term) Err() error {
	if t.lease == nil {
		return nil
	}
	return t.lease.err()
}

// Do runs fn with a context that ends with ctx or with the term, and returns what fn
// returns. If the term ends, Err is the cause of the context. If the term is over, Do
// returns Err and does not run fn; if another process leads by it, ErrNotLeader. Giving
// leadership up waits for fn.
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

// notLeader is the error for this process, which does not lead by the term. A term of its
// own that has ended names no other to ask.
func (t Term) notLeader() error {
	if t.Leader() == "" || t.own() {
		return ErrNotLeader
	}
	return fmt.Errorf("%w; ask %s", ErrNotLeader, t.Leader())
}

// live reports whether the term is one that is not over.
func (t Term) live() bool { return t.lease != nil && !t.lease.Ended() }

// own reports whether this process leads by the term.
func (t Term) own() bool { return t.lease != nil && t.lease.own }
