// SPDX-License-Identifier: Apache-2.0

package cluster

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

// Commit implements record.Session.
func (s *recordSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	token, err := s.node.commit(ctx, s.request(ops))
	if err != nil && s.node.Err() != nil && !errors.Is(err, record.ErrUnknownOutcome) {
		err = closedError(err)
	}
	return token, err
}

// commit asks the leader, and each next one while there is none.
func (n *Node) commit(ctx context.Context, r message.RecordRequest) (member.Token, error) {
	for {
		a, err := n.ask(ctx, r)
		if err != nil {
			return member.Token{}, err
		}
		if a.Reason != message.ReasonNoQuorum {
			return member.Token(a.Number), refusalError(a.Reason)
		}
		if _, err := n.WaitLeader(ctx); err != nil {
			return member.Token{}, err
		}
	}
}

// request encodes ops for the leader.
func (s *recordSession) request(ops []record.Op) (r message.RecordRequest) {
	for _, op := range ops {
		change := message.Change{Key: op.Key, Value: op.Value}
		switch op.Kind {
		case record.Absent:
			r.Conditions = append(r.Conditions, message.Condition{Key: op.Key})
			continue
		case record.Held:
			r.Conditions = append(r.Conditions, message.Condition{Key: op.Key, Token: op.Token})
			continue
		case record.Set:
		case record.SetOwned:
			change.Owned, change.Session = true, s.id
		case record.Drop:
			change = message.Change{Key: op.Key, Drop: true}
		default:
			panic(fmt.Sprintf("cluster: an Op has the unknown Kind %d", op.Kind))
		}
		r.Changes = append(r.Changes, change)
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
		return message.RecordResponse{}, fmt.Errorf("%w: %w", record.ErrBusy, context.Cause(ctx))
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
		err := fmt.Errorf("%w: %w", record.ErrUnknownOutcome, context.Cause(ctx))
		return message.RecordResponse{}, err
	case <-n.quit:
		return message.RecordResponse{}, fmt.Errorf("%w: %w", record.ErrUnknownOutcome, n.cause)
	}
}

// refusalError returns the error of an answer, nil if the request was accepted.
func refusalError(why message.Reason) error {
	switch why {
	case message.ReasonNone:
		return nil
	case message.ReasonConflict:
		return record.ErrConflict
	case message.ReasonOwned:
		return record.ErrOwned
	case message.ReasonTooLarge:
		return fmt.Errorf("%w: a record has a key of 1 to %d bytes and a value of at most %d, "+
			"a request at most %d changes, and all records together %d entries of %d bytes",
			record.ErrTooLarge, member.MaxKeyBytes, member.MaxValueBytes, message.MaxChanges,
			member.MaxRecords, member.MaxRecordsBytes)
	case message.ReasonBusy:
		return fmt.Errorf("%w: too many requests for records are in flight", record.ErrBusy)
	case message.ReasonNotActive:
		return fmt.Errorf("%w: only an active member changes records", ErrNotActive)
	default:
		return fmt.Errorf("%w: the leader was lost, or did not answer", record.ErrUnknownOutcome)
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
