// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

// maxActs limits the number of concurrent write requests.
const maxActs = 16

// Actor is the set of write operations of a node. *cluster.Node implements it.
type Actor interface {
	Send(ctx context.Context, to member.Address, event any, opts ...cluster.SendOption) error
	Broadcast(ctx context.Context, event any, opts ...cluster.SendOption) error
	Transfer(ctx context.Context, to member.Address) error
	Drain(ctx context.Context) error
	Prefer(ctx context.Context, p member.Preference) error
	SetLabels(ctx context.Context, labels map[string]string) error
	ReleaseSeats(ctx context.Context, keep int) error
}

// WithWrite enables the write requests of the API. Without it the handler refuses every POST as
// read_only. leave makes the node leave its cluster; the handler calls it once, after it has
// responded to the first POST to /v1/leave. leave may block.
func WithWrite(node Actor, leave func()) Option {
	return func(h *handler) { h.actor, h.leave = node, leave }
}

// refusal is an error with its HTTP status and code.
type refusal struct {
	status int
	code   string
	text   string
}

// Error implements error.
func (e *refusal) Error() string { return e.text }

// handleAct returns a handler for write requests that reads the body, passes it to the function
// answer and writes the value that the function returns.
func handleAct[Body any](
	h *handler, answer func(ctx context.Context, body Body) (any, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body Body
		err := h.checkRequest(w, r, &body)
		if err != nil {
			writeRefusal(w, err)
			return
		}
		select {
		case h.acts <- struct{}{}:
			defer func() { <-h.acts }()
		default:
			adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeBusy,
				fmt.Sprintf("busy: %d write requests are in progress, which is the maximum: try again",
					maxActs))
			return
		}
		keepConnection(r)
		ctx, cancel := context.WithTimeout(r.Context(), adminapi.ActTimeout)
		defer cancel()
		value, err := answer(ctx, body)
		if err != nil {
			writeRefusal(w, h.explainNoLeader(err))
			return
		}
		adminapi.WriteJSON(w, http.StatusOK, value)
	}
}

// explainNoLeader replaces the timeout in a no-leader error with the reason why there is no leader.
func (h *handler) explainNoLeader(err error) error {
	s := h.readStatus()
	if codeOf(err) != adminapi.CodeNoQuorum || s.NoLeader == "" {
		return err
	}
	text := strings.TrimSuffix(textOf(err), ": "+context.DeadlineExceeded.Error())
	return &refusal{statusOf(err), adminapi.CodeNoQuorum, addReason(text, s)}
}

func readOnly() error {
	return &refusal{http.StatusForbidden, adminapi.CodeReadOnly,
		"this admin API is read-only: start the node with --admin-write (admin.WithWrite)"}
}

// checkRequest checks that a write request is allowed, and decodes its body.
func (h *handler) checkRequest(w http.ResponseWriter, r *http.Request, body any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case h.sameSite.Check(r) != nil:
		return crossSite()
	case h.actor == nil:
		return readOnly()
	case err != nil || kind != "application/json":
		return &refusal{http.StatusUnsupportedMediaType, adminapi.CodeBadRequest,
			"Content-Type must be application/json"}
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	d.DisallowUnknownFields()
	err = d.Decode(body)
	if errors.Is(err, io.EOF) {
		err = nil // an empty body stands for {}
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
		return &refusal{http.StatusRequestEntityTooLarge, adminapi.CodeTooLarge,
			fmt.Sprintf("body is larger than %d bytes", maxBodyBytes)}
	case err != nil:
		return &refusal{http.StatusBadRequest, adminapi.CodeBadRequest, "invalid body: " + err.Error()}
	}
	actionOf(r.Context()).noteBody(body)
	// The request has arrived; its operation may take longer than the read deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

// findMember returns the member whose address or name is text. field is the field of the request
// that contains text.
func (h *handler) findMember(field, text string) (adminapi.Member, error) {
	var found []adminapi.Member
	at, _ := member.ParseAddress(text) // zero if it is a name
	for _, m := range h.readStatus().View.Members {
		switch {
		case m.Address == at:
			return m, nil
		case m.Name == text:
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return adminapi.Member{}, &refusal{http.StatusConflict, adminapi.CodeNotActive,
			fmt.Sprintf("%s %q: no member has this address or name: see athena members", field, text)}
	default:
		return adminapi.Member{}, &refusal{http.StatusBadRequest, adminapi.CodeBadRequest,
			fmt.Sprintf("%s %q: %d members have this name; use an address", field, text, len(found))}
	}
}

// transferLeadership hands over leadership. A node that does not lead forwards the request to the
// leader.
func (h *handler) transferLeadership(
	ctx context.Context, body adminapi.TransferRequest) (any, error,
) {
	done, err := h.transferHere(ctx, body)
	elsewhere, ok := errors.AsType[*cluster.NotLeaderError](err)
	if !ok || h.others == nil || elsewhere.Provisional || elsewhere.Leader.IsZero() ||
		elsewhere.Leader == h.node.Status().Self.Address {
		return done, err
	}
	return h.forwardAction(ctx, elsewhere.Leader, actTransfer, body)
}

func (h *handler) transferHere(ctx context.Context, body adminapi.TransferRequest) (any, error) {
	var to adminapi.Member
	if body.To != "" {
		var err error
		if to, err = h.findMember("to", body.To); err != nil {
			return nil, err
		}
	}
	err := h.actor.Transfer(ctx, to.Address)
	switch {
	case errors.Is(err, cluster.ErrNotActive) && to.Address == h.node.Status().Self.Address:
		return nil, &refusal{http.StatusConflict, adminapi.CodeNotActive,
			fmt.Sprintf("to %q: it leads already; name another member, or none", body.To)}
	case err != nil:
		return nil, err
	}
	return h.handedOver(), nil
}

func (h *handler) drainMember(ctx context.Context, body adminapi.DrainRequest) (any, error) {
	switch other, err := h.findOther(body.Member); {
	case err != nil:
		return nil, err
	case !other.IsZero():
		return h.forwardAction(ctx, other, actDrain, adminapi.DrainRequest{})
	default:
		return h.drainHere(ctx)
	}
}

func (h *handler) drainHere(ctx context.Context) (any, error) {
	if err := h.actor.Drain(ctx); err != nil {
		return nil, &refusal{statusOf(err), codeOf(err), "the node is drained and will hand over as " +
			"soon as another member can lead: " + textOf(err)}
	}
	return h.handedOver(), nil
}

func (h *handler) preferMember(ctx context.Context, body adminapi.PreferRequest) (any, error) {
	switch other, err := h.findOther(body.Member); {
	case err != nil:
		return nil, err
	case !other.IsZero():
		body.Member = ""
		return h.forwardAction(ctx, other, actPrefer, body)
	default:
		return h.preferHere(ctx, body)
	}
}

func (h *handler) preferHere(ctx context.Context, body adminapi.PreferRequest) (any, error) {
	// A preference out of the range of the type is out of the range of preferences.
	p := member.Preference(max(math.MinInt8, min(body.Preference, math.MaxInt8)))
	err := h.actor.Prefer(ctx, p)
	if isInvalid(err) {
		return nil, badRequest(err)
	}
	if err != nil {
		return nil, &refusal{statusOf(err), codeOf(err), "the preference is set, and the node will " +
			"hand over as soon as another member can lead: " + textOf(err)}
	}
	return h.handedOver(), nil
}

func (h *handler) releaseSeats(ctx context.Context, body adminapi.SeatsRequest) (any, error) {
	err := h.actor.ReleaseSeats(ctx, body.Keep)
	if isInvalid(err) {
		err = badRequest(err)
	}
	return adminapi.Done{Status: "ok"}, err
}

func isInvalid(err error) bool {
	_, invalid := errors.AsType[*cluster.FieldError](err)
	return invalid
}

func badRequest(err error) error {
	return &refusal{http.StatusBadRequest, adminapi.CodeBadRequest, textOf(err)}
}

// changeLabels sets and removes labels of the node. The labels that the request does not name stay.
func (h *handler) changeLabels(ctx context.Context, body adminapi.LabelRequest) (any, error) {
	h.labels.Lock() // so that no other request changes the labels in between
	defer h.labels.Unlock()
	labels := maps.Collect(h.node.Status().Self.Labels.All())
	for key, value := range body.Labels {
		if delete(labels, key); value != nil {
			labels[key] = *value
		}
	}
	if _, err := member.NewLabels(labels); err != nil {
		return nil, badRequest(err)
	}
	if err := h.actor.SetLabels(ctx, labels); err != nil {
		return nil, err
	}
	return adminapi.Labels{Labels: labels}, nil
}

func (h *handler) handedOver() adminapi.HandedOver {
	if l, ok := h.readStatus().LeaderOf(); ok {
		return adminapi.HandedOver{Leader: &l}
	}
	return adminapi.HandedOver{}
}

// leaveCluster responds before the node leaves, since it cannot respond afterwards.
func (h *handler) leaveCluster(w http.ResponseWriter, r *http.Request) {
	if err := h.checkRequest(w, r, &adminapi.Empty{}); err != nil {
		writeRefusal(w, err)
		return
	}
	adminapi.WriteJSON(w, http.StatusAccepted, adminapi.Done{Status: "leaving"})
	_ = http.NewResponseController(w).Flush() // the node leaves even if the caller is gone
	h.left.Do(h.leave)
}

func writeRefusal(w http.ResponseWriter, err error) {
	adminapi.WriteError(w, statusOf(err), codeOf(err), textOf(err))
}

// textOf returns the text of an error without its package prefix.
func textOf(err error) string {
	text := err.Error()
	for _, name := range []string{"lock: ", "election: ", "cluster: ", "record: ", "member: ",
		"athena: "} {
		text = strings.TrimPrefix(text, name)
	}
	return text
}
