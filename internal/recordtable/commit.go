// SPDX-License-Identifier: Apache-2.0

package recordtable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/statemachine"
)

// MaxCommits bounds the number of requests of a node in flight; further commits wait. With more
// requests, the leader might be too busy to send its heartbeats, and the members would elect
// another.
const MaxCommits = 128

// Commit implements record.Session.
func (s *session) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	r := s.newRequest(ops)
	if err := s.table.leases.refuse(r); err != nil {
		return member.Token{}, err
	}
	token, err := s.table.commit(ctx, r)
	if err != nil && s.table.cfg.Life.Err() != nil && !errors.Is(err, record.ErrUnknownOutcome) {
		err = closedError(err)
	}
	return token, err
}

// commit sends a request to the leader. If there is no leader, it waits.
func (t *Table) commit(ctx context.Context, r message.RecordRequest) (member.Token, error) {
	for {
		a, err := t.sendRequest(ctx, r)
		if err != nil {
			return member.Token{}, err
		}
		if a.Reason != message.ReasonNoQuorum {
			return member.Token(a.Number), refusalError(a.Reason)
		}
		if err := t.cfg.Node.WaitLeader(ctx); err != nil {
			return member.Token{}, err
		}
	}
}

// newRequest encodes ops.
func (s *session) newRequest(ops []record.Op) (r message.RecordRequest) {
	for _, op := range ops {
		switch op.Kind {
		case record.Absent:
			r.Conditions = append(r.Conditions, message.Condition{Key: op.Key})
		case record.Held:
			r.Conditions = append(r.Conditions, message.Condition{Key: op.Key, Token: op.Token})
		case record.Set:
			r.Changes = append(r.Changes, message.Change{Key: op.Key, Value: op.Value})
		case record.SetOwned:
			r.Changes = append(r.Changes,
				message.Change{Key: op.Key, Value: op.Value, Owned: true, Session: s.id})
		case record.Drop:
			r.Changes = append(r.Changes, message.Change{Key: op.Key, Drop: true})
		default:
			panic(fmt.Sprintf("record: Op with unknown Kind %d", op.Kind))
		}
	}
	return r
}

// sendRequest passes a request to the machine when fewer than MaxCommits requests are in flight,
// and waits for the response.
func (t *Table) sendRequest(
	ctx context.Context, r message.RecordRequest,
) (a message.RecordResponse, err error) {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return a, fmt.Errorf("%w: %w", record.ErrBusy, context.Cause(ctx))
	case <-t.cfg.Life.Done():
		return a, context.Cause(t.cfg.Life)
	}
	response := make(chan message.RecordResponse, 1) // DeliverAnswers never blocks
	err = t.cfg.Node.Do(ctx, func(
		now time.Time, m *statemachine.Machine,
	) (statemachine.Output, error) {
		t.lastRequest++
		r.ID = t.lastRequest
		t.pending[r.ID] = response
		return m.Commit(now, r), nil
	})
	if err == nil {
		select {
		case a = <-response:
			return a, nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-t.cfg.Life.Done():
			err = context.Cause(t.cfg.Life)
		}
	} else if r.ID == 0 { // otherwise a state whose save failed may still be on the disk
		return a, err
	}
	return a, fmt.Errorf("%w: %w", record.ErrUnknownOutcome, err)
}

// DeliverAnswers delivers the responses of a turn to the commits that wait for them.
func (t *Table) DeliverAnswers(answers []message.RecordResponse) {
	for _, a := range answers {
		if response, ok := t.pending[a.ID]; ok {
			response <- a
			delete(t.pending, a.ID)
		}
	}
}

// refusalError returns the error of a response, or nil if the request was accepted.
func refusalError(why message.Reason) error {
	switch why {
	case message.ReasonNone:
		return nil
	case message.ReasonConflict:
		return record.ErrConflict
	case message.ReasonOwned:
		return record.ErrOwned
	case message.ReasonTooLarge:
		return fmt.Errorf("%w: a key has 1 to %d bytes, a value at most %d bytes, a commit at most "+
			"%d conditions and %d changes", record.ErrTooLarge, member.MaxKeyBytes,
			member.MaxValueBytes, message.MaxConditions, message.MaxChanges)
	case message.ReasonTableFull:
		return fmt.Errorf("%w: it has room for %d records of %d bytes in all", record.ErrTableFull,
			member.MaxRecords, member.MaxRecordsBytes)
	case message.ReasonBusy:
		return fmt.Errorf("%w: too many commits are in flight", record.ErrBusy)
	case message.ReasonNotActive:
		return fmt.Errorf("%w: only an active member may change records", record.ErrNotActive)
	default:
		return fmt.Errorf("%w: the leader was lost or did not answer", record.ErrUnknownOutcome)
	}
}
