// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

const (
	// actTimeout bounds what a POST waits for: the next leader, or the handlers of an
	// event.
	actTimeout = 15 * time.Second
	// maxActs bounds the POSTs that are under way at once.
	maxActs = 16
)

// Actor is what can be done to a node: *cluster.Node has it.
type Actor interface {
	Send(ctx context.Context, to member.Address, event any, opts ...cluster.SendOption) error
	Broadcast(ctx context.Context, event any, opts ...cluster.SendOption) error
	Transfer(ctx context.Context, to member.Address) error
	Drain(ctx context.Context) error
}

// WithWrite lets the handler act on its node; without it every POST is refused as
// CodeReadOnly. leave makes the node leave and its process end, or whatever the
// program does without its node; it is called once, after the answer to the first
// POST of /v1/leave was written, and may block.
func WithWrite(node Actor, leave func()) Option {
	return func(h *handler) { h.actor, h.leave = node, leave }
}

// SendRequest is the body of POST /v1/send.
type SendRequest struct {
	Name    string          `json:"name"`    // of the type of the event
	Payload json.RawMessage `json:"payload"` // see receiver.JSON
	// To is an address or a name; empty for every active member, this node too.
	To string `json:"to,omitempty"`
}

// Sent is the answer of /v1/send.
type Sent struct {
	// Results are of every member that was to get the event, in the order of
	// addresses.
	Results []SendResult `json:"results"`
}

// SendResult is what became of an event at one member.
type SendResult struct {
	Name    string         `json:"name"`
	Address member.Address `json:"address"`
	// Result is OutcomeHandled, or the code of the error.
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// OutcomeHandled is the result of an event whose handlers have returned.
const OutcomeHandled = "handled"

// TransferRequest is the body of POST /v1/transfer. To is an address or a name; empty
// for whoever has the freshest state.
type TransferRequest struct {
	To string `json:"to,omitempty"`
}

// HandedOver is the answer of /v1/transfer and /v1/drain. Leader is null where nobody
// leads with authority at the moment.
type HandedOver struct {
	Leader *Leader `json:"leader"`
}

// Done is the answer of what has nothing more to say: Status is "ok", or "leaving".
type Done struct {
	Status string `json:"status"`
}

// nothing is the body of a POST that takes none.
type nothing struct{}

// refusal is an error with its place in the API.
type refusal struct {
	status int
	code   string
	text   string
}

// Error implements error.
func (e *refusal) Error() string { return e.text }

// act makes a POST of what answers a request with a value.
func act[Body any](
	h *handler, answer func(ctx context.Context, body Body) (any, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body Body
		err := h.permit(w, r, &body)
		if err != nil {
			writeRefusal(w, err)
			return
		}
		select {
		case h.acts <- struct{}{}:
			defer func() { <-h.acts }()
		default:
			WriteError(w, http.StatusServiceUnavailable, CodeBusy,
				fmt.Sprintf("%d requests are under way, and no more may be: try again", maxActs))
			return
		}
		keepConnection(r)
		ctx, cancel := context.WithTimeout(r.Context(), actTimeout)
		defer cancel()
		value, err := answer(ctx, body)
		if err != nil {
			writeRefusal(w, h.explained(err))
			return
		}
		WriteJSON(w, http.StatusOK, value)
	}
}

// explained says of an error for want of a leader why there is none, rather than that the
// time is over.
func (h *handler) explained(err error) error {
	s := h.look()
	if codeOf(err) != CodeNoQuorum || s.NoLeader == "" {
		return err
	}
	text := strings.TrimSuffix(textOf(err), ": "+context.DeadlineExceeded.Error())
	return &refusal{statusOf(err), CodeNoQuorum, because(text, s)}
}

// permit checks that a request may act, and reads its body.
func (h *handler) permit(w http.ResponseWriter, r *http.Request, body any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case h.sameSite.Check(r) != nil:
		return crossSite()
	case h.actor == nil:
		return &refusal{http.StatusForbidden, CodeReadOnly,
			"this admin API only reads; start the node with --admin-write (admin.WithWrite)"}
	case err != nil || kind != "application/json":
		return &refusal{http.StatusUnsupportedMediaType, CodeBadRequest,
			"the Content-Type must be application/json"}
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	d.DisallowUnknownFields()
	err = d.Decode(body)
	if errors.Is(err, io.EOF) {
		err = nil // no body is one without fields
	} else if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errors.New("more than one JSON value")
		}
	}
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		return &refusal{http.StatusRequestEntityTooLarge, CodeTooLarge,
			fmt.Sprintf("the body has more than %d bytes", maxBodyBytes)}
	case err != nil:
		return &refusal{http.StatusBadRequest, CodeBadRequest, "body: " + err.Error()}
	}
	// The time to send a request is over; what it asks for may take longer.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

// find is the member with an address or a name, which the field of a request has.
func (h *handler) find(field, text string) (Member, error) {
	var found []Member
	for _, m := range h.look().View.Members {
		switch text {
		case m.Address.String():
			return m, nil
		case m.Name:
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Member{}, &refusal{http.StatusConflict, CodeNotActive,
			fmt.Sprintf("%s %q: no member has this address or name; see /v1/members", field, text)}
	default:
		return Member{}, &refusal{http.StatusBadRequest, CodeBadRequest,
			fmt.Sprintf("%s %q: %d members have this name; take an address", field, text, len(found))}
	}
}

func (h *handler) transfer(ctx context.Context, body TransferRequest) (any, error) {
	var to Member
	if body.To != "" {
		var err error
		if to, err = h.find("to", body.To); err != nil {
			return nil, err
		}
	}
	if err := h.actor.Transfer(ctx, to.Address); err != nil {
		return nil, err
	}
	return h.handedOver(), nil
}

func (h *handler) drain(ctx context.Context, _ nothing) (any, error) {
	if err := h.actor.Drain(ctx); err != nil {
		return nil, &refusal{statusOf(err), codeOf(err), "the node is drained, and gives leadership " +
			"up as soon as another member can lead: " + textOf(err)}
	}
	return h.handedOver(), nil
}

func (h *handler) handedOver() HandedOver {
	if l, ok := h.look().LeaderOf(); ok {
		return HandedOver{&l}
	}
	return HandedOver{}
}

// leaves answers before it lets the node leave: nothing can be answered afterwards.
func (h *handler) leaves(w http.ResponseWriter, r *http.Request) {
	if err := h.permit(w, r, &nothing{}); err != nil {
		writeRefusal(w, err)
		return
	}
	WriteJSON(w, http.StatusAccepted, Done{"leaving"})
	_ = http.NewResponseController(w).Flush() // a caller that went away wanted it too
	h.left.Do(h.leave)
}

func writeRefusal(w http.ResponseWriter, err error) {
	WriteError(w, statusOf(err), codeOf(err), textOf(err))
}

// textOf leaves out which package of this program an error is of.
func textOf(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "latch: "), "cluster: ")
}
