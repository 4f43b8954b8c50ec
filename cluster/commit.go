// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Op is one part of a Commit: a condition, or a change.
type Op struct {
	condition message.Condition
	change    message.Change
	session   *Session // that owns what is set; nil for nobody
	isChange  bool
}

// Absent wants no record under key.
func Absent(key string) Op { return Op{condition: message.Condition{Key: key}} }

// Held wants the record under key to be the one with this token, and not revoked.
func Held(key string, token member.Token) Op {
	return Op{condition: message.Condition{Key: key, Token: token}}
}

// Set puts value under key. The record ends with s and with this run of its node; with a
// nil Session it stays until somebody drops it.
func Set(key string, value []byte, s *Session) Op {
	return Op{change: message.Change{Key: key, Value: value}, session: s, isChange: true}
}

// Drop takes the record under key away; it is no error when there is none. One that
// another node owns is revoked: that node may act on it no more from when it learns so,
// and then it goes, at the latest when the session of a node that is silent would end.
func Drop(key string) Op {
	return Op{change: message.Change{Key: key, Drop: true}, isChange: true}
}

// Commit makes the changes among ops where all conditions among them hold, all or none,
// and blocks until a majority has them; each key is changed once at most. The token is
// that of every record that was set, greater than each before it under that key. Where
// there is no quorate leader, it waits for one until ctx ends.
//
// From the call on this node may not act on what it held under the changed keys,
// whatever comes of it; see Session.Hold for what it has set.
//
// Errors: ErrConflict, ErrOwned, ErrTooLarge (limits of member.Record,
// message.MaxChanges, or the table is full), ErrBusy (the leader has too much to do, or ctx
// ended while 128 other requests of this node were under way), ErrNotActive, ErrNoQuorum
// with the cause of ctx, ErrClosed. These say that nothing was changed. ErrUnknownOutcome says
// that the leader was lost, or did not answer within LeaderTimeout, or that ctx ended
// meanwhile: look at the records, and ask again under the same conditions.
func (n *Node) Commit(ctx context.Context, ops ...Op) (member.Token, error) {
	r := requestOf(ops)
	for {
		a, err := n.ask(ctx, r)
		if err != nil {
			return member.Token{}, err
		}
		if a.Reason != message.ReasonNoQuorum {
			return member.Token(a.Number), refused(a.Reason)
		}
		if _, err := n.WaitLeader(ctx); err != nil {
			return member.Token{}, err
		}
	}
}

func requestOf(ops []Op) (r message.RecordRequest) {
	for _, op := range ops {
		if !op.isChange {
			r.Conditions = append(r.Conditions, op.condition)
			continue
		}
		if op.session != nil {
			op.change.Owned, op.change.Session = true, op.session.id
		}
		r.Changes = append(r.Changes, op.change)
	}
	return r
}

// maxAsking bounds the requests of this node that are under way at once; others wait. A
// leader that gets more than it can take would be lost by its heartbeats.
const maxAsking = 128

// ask hands a request to the machine, when few are under way, and waits for its answer.
func (n *Node) ask(
	ctx context.Context, r message.RecordRequest,
) (message.RecordResponse, error) {
	select {
	case n.asking <- struct{}{}:
		defer func() { <-n.asking }()
	case <-ctx.Done():
		return message.RecordResponse{}, fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
	case <-n.quit:
		return message.RecordResponse{}, n.cause
	}
	answer := make(chan message.RecordResponse, 1)
	err := n.do(ctx, func(now time.Time) (statemachine.Output, error) {
		n.asked.id++
		r.ID = n.asked.id
		n.asked.put(r.ID, answer)
		return n.machine.Commit(now, r), nil
	})
	if err != nil {
		return message.RecordResponse{}, err
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return message.RecordResponse{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, context.Cause(ctx))
	case <-n.quit:
		return message.RecordResponse{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, n.cause)
	}
}

// refused is the error of an answer, nil where the request was taken.
func refused(why message.Reason) error {
	switch why {
	case message.ReasonNone:
		return nil
	case message.ReasonConflict:
		return ErrConflict
	case message.ReasonOwned:
		return ErrOwned
	case message.ReasonTooLarge:
		return fmt.Errorf("%w: a record has a key of 1 to %d bytes and a value of at most %d, "+
			"a request at most %d changes, and all records together %d entries of %d bytes",
			ErrTooLarge, member.MaxKeyBytes, member.MaxValueBytes, message.MaxChanges,
			member.MaxRecords, member.MaxRecordsBytes)
	case message.ReasonBusy:
		return fmt.Errorf("%w: too many requests for records wait", ErrBusy)
	case message.ReasonNotActive:
		return fmt.Errorf("%w: only an active member changes records", ErrNotActive)
	default:
		return fmt.Errorf("%w: the leader was lost, or did not answer", ErrUnknownOutcome)
	}
}

// asked are the requests of this node that wait for the machine's answer. They belong to
// the loop.
type asked struct {
	id   uint64
	open map[uint64]chan<- message.RecordResponse
}

func (a *asked) put(id uint64, answer chan<- message.RecordResponse) {
	if a.open == nil {
		a.open = map[uint64]chan<- message.RecordResponse{}
	}
	a.open[id] = answer
}

// answered hands answers on. Who waits no more has left room for one.
func (a *asked) answered(answers []message.RecordResponse) {
	for _, r := range answers {
		if answer, ok := a.open[r.ID]; ok {
			answer <- r
		}
		delete(a.open, r.ID)
	}
}
