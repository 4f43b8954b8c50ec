// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// sendEvent gives an event to one member or to all, and waits until its handlers there
// have returned.
func (h *handler) sendEvent(ctx context.Context, body adminapi.SendRequest) (any, error) {
	switch {
	case body.Name == "":
		return nil, &refusal{http.StatusBadRequest, adminapi.CodeBadRequest,
			"name is missing: the name of the type of the event"}
	case body.Payload == nil:
		return nil, &refusal{http.StatusBadRequest, adminapi.CodeBadRequest,
			"payload is missing: {} for an event without fields"}
	}
	event := receiver.JSON{Name: body.Name, Text: body.Payload}
	outcomes := make(outcomes, cluster.MaxSize)
	if body.To == "" {
		return h.broadcastEvent(ctx, event, outcomes)
	}
	to, err := h.findMember("to", body.To)
	if err != nil {
		return nil, err
	}
	err = h.actor.Send(ctx, to.Address, event, outcomes.sendOption())
	if err == nil {
		err = outcomes.waitForAll(ctx, map[member.Address]bool{to.Address: true})[to.Address]
	}
	if err != nil {
		return nil, sendError(err)
	}
	return adminapi.Sent{Results: []adminapi.SendResult{{Name: to.Name, Address: to.Address,
		Result: adminapi.OutcomeHandled}}}, nil
}

func (h *handler) broadcastEvent(
	ctx context.Context, event receiver.JSON, outcomes outcomes,
) (any, error) {
	var results []cluster.Result
	err := h.actor.Broadcast(ctx, event,
		cluster.WithSelf(), cluster.WithResults(&results), outcomes.sendOption())
	switch _, some := errors.AsType[*cluster.BroadcastError](err); {
	case err != nil && !some:
		return nil, sendError(err)
	case len(results) == 0:
		return nil, fmt.Errorf("%w: this node knows no active member", cluster.ErrNotActive)
	}
	taken := map[member.Address]bool{}
	for _, r := range results {
		if r.Err == nil {
			taken[r.To.Address] = true
		}
	}
	told := outcomes.waitForAll(ctx, taken)
	sent := adminapi.Sent{Results: make([]adminapi.SendResult, 0, len(results))}
	for _, r := range results {
		if r.Err == nil {
			r.Err = told[r.To.Address]
		}
		one := adminapi.SendResult{Name: r.To.Name, Address: r.To.Address,
			Result: adminapi.OutcomeHandled}
		if r.Err != nil {
			one.Result, one.Error = codeOf(r.Err), textOf(r.Err)
		}
		sent.Results = append(sent.Results, one)
	}
	return sent, nil
}

// sendError tells a fault of the body from what a member has refused.
func sendError(err error) error {
	if errors.Is(err, receiver.ErrUnsendable) {
		return &refusal{http.StatusBadRequest, adminapi.CodeBadRequest, textOf(err)}
	}
	return err
}

// outcome is what became of an event at a member that took it.
type outcome struct {
	to  member.Address
	err error
}

// outcomes has room for one of every member: who tells one never waits.
type outcomes chan outcome

func (o outcomes) sendOption() cluster.SendOption {
	return cluster.WithOutcome(func(to member.Address, err error) { o <- outcome{to, err} })
}

// waitForAll collects the outcomes at the members that took the event. Those that come too
// late are not known.
func (o outcomes) waitForAll(
	ctx context.Context, taken map[member.Address]bool,
) (told map[member.Address]error) {
	told = map[member.Address]error{}
	for len(told) < len(taken) {
		select {
		case one := <-o:
			told[one.to] = one.err
		case <-ctx.Done():
			for to := range taken {
				if _, known := told[to]; !known {
					told[to] = fmt.Errorf("%w: the event was taken, and its handler has not returned yet",
						cluster.ErrUnknownOutcome)
				}
			}
		}
	}
	return told
}
