// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/eventname"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// sendEvent sends an event to one member or to all members, and waits for the handlers.
func (h *handler) sendEvent(ctx context.Context, body adminapi.SendRequest) (any, error) {
	switch {
	case body.Name == "":
		return nil, &refusal{http.StatusBadRequest, adminapi.CodeBadRequest,
			"name is missing: must be the type name of the event"}
	case eventname.IsReserved(body.Name): // a handler of Athena would trust the payload
		return nil, &refusal{http.StatusBadRequest, adminapi.CodeBadRequest,
			"name is reserved: names that begin with athena. or athena/ are for events of Athena itself"}
	case body.Payload == nil:
		return nil, &refusal{http.StatusBadRequest, adminapi.CodeBadRequest,
			"payload is missing: must be a JSON value, {} for an event without fields"}
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
	delivered := map[member.Address]bool{}
	for _, r := range results {
		if r.Err == nil {
			delivered[r.To.Address] = true
		}
	}
	failed := outcomes.waitForAll(ctx, delivered)
	sent := adminapi.Sent{Results: make([]adminapi.SendResult, 0, len(results))}
	for _, r := range results {
		if r.Err == nil {
			r.Err = failed[r.To.Address]
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

// sendError turns an error of the payload into a bad request.
func sendError(err error) error {
	if errors.Is(err, receiver.ErrUnsendable) {
		return &refusal{http.StatusBadRequest, adminapi.CodeBadRequest, textOf(err)}
	}
	return err
}

// outcome is the result of an event at one member.
type outcome struct {
	to  member.Address
	err error
}

// outcomes is buffered for one outcome per member, so that sends never block.
type outcomes chan outcome

func (o outcomes) sendOption() cluster.SendOption {
	return cluster.WithOutcome(func(to member.Address, err error) { o <- outcome{to, err} })
}

// waitForAll collects the outcomes of the members that receive the event. If ctx ends first, the
// missing outcomes are cluster.ErrUnknownOutcome.
func (o outcomes) waitForAll(
	ctx context.Context, delivered map[member.Address]bool,
) (results map[member.Address]error) {
	results = map[member.Address]error{}
	for len(results) < len(delivered) {
		select {
		case one := <-o:
			results[one.to] = one.err
		case <-ctx.Done():
			for to := range delivered {
				if _, known := results[to]; !known {
					results[to] = fmt.Errorf("%w: the event was delivered, but its handler has not returned",
						cluster.ErrUnknownOutcome)
				}
			}
		}
	}
	return results
}
