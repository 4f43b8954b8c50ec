// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/eventname"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Limits on status requests between members.
const (
	// askTimeout limits how long to wait for another member. It is short because the dashboard polls
	// all members, and a hanging member must not delay the responses of the others.
	askTimeout = 300 * time.Millisecond
	// maxAsking limits the concurrent requests that this node sends.
	maxAsking = 64
	// maxAnswering limits the concurrent responses. maxAnswerQueue limits the queued requests from one
	// member.
	maxAnswering   = 4
	maxAnswerQueue = 16
	// maxStatusBytes limits the size of a status. Even a status with 255 members is smaller.
	maxStatusBytes = 512 << 10
	// maxForwardBytes limits the bodies of a forwarded action and of its response.
	maxForwardBytes = 4 << 10
	// forwardMargin is how much earlier than the requester the member stops, to respond in time.
	forwardMargin = 500 * time.Millisecond
)

// Errors of requests to other members.
var (
	errAskDisabled = errors.New("this program does not query other members (admin.Answer)")
	errAskEarly    = errors.New("this node is not listening yet")
	errNoForward   = errors.New("its program does not accept forwarded requests")
	errAskBusy     = errors.New("busy: too many requests to other members: try again")
)

// statusQuestion and statusAnswer are the request and the response between members. The response
// is the JSON of /v1/status, so that fields can be added and removed.
type statusQuestion struct {
	MostBytes int  `msgpack:"most"`    // maximum size that the requester accepts
	Callers   bool `msgpack:"callers"` // asks for the callers of jobs and locks instead
}

type statusAnswer struct {
	JSON []byte `msgpack:"json"`
}

// forwardQuestion asks a member to act on itself. Body and the response are those of the admin API.
type forwardQuestion struct {
	Action    string `msgpack:"action"` // actTransfer, actDrain or actPrefer
	Body      []byte `msgpack:"body"`
	Caller    string `msgpack:"caller"` // of the forwarding node, for the log
	TimeoutMS int64  `msgpack:"timeout"`
}

type forwardAnswer struct {
	Status int    `msgpack:"status"`
	JSON   []byte `msgpack:"json"`
}

// Actions that a node forwards.
const (
	actTransfer = "transfer"
	actDrain    = "drain"
	actPrefer   = "prefer"
)

// Others sends requests to other members, and responds to theirs: for the status, so that the views
// of all members can be compared, and to act. It is safe for concurrent use.
type Others struct {
	build  string
	audit  *auditor
	node   atomic.Pointer[cluster.Node]
	local  atomic.Pointer[handler] // performs forwarded actions; nil without WithWrite
	asking chan struct{}
}

// Answer registers handlers in mux that respond to other members, and returns the Others for
// WithOthers. build is the argument of New. A member whose program does not call Answer is shown as
// not responding. The Others performs transfers, drains and preferences that other members forward
// only if the handler of New has WithWrite. It logs them to log, which may be nil.
func Answer(mux *receiver.Mux, build string, log *slog.Logger) *Others {
	o := &Others{build: build, audit: &auditor{log: log}, asking: make(chan struct{}, maxAsking)}
	receiver.HandleRequest(mux, o.answerStatus, receiver.Named(eventname.AdminStatus),
		receiver.Concurrency(maxAnswering), receiver.Queue(maxAnswerQueue, receiver.Reject))
	receiver.HandleRequest(mux, o.answerForward, receiver.Named(eventname.AdminAct),
		receiver.Concurrency(maxAnswering), receiver.Queue(maxAnswerQueue, receiver.Reject))
	return o
}

// Use sets the node. Pass it to cluster.WithListening, or call it from there.
func (o *Others) Use(n *cluster.Node) { o.node.Store(n) }

func (o *Others) answerStatus(
	_ context.Context, _ member.Member, q statusQuestion,
) (statusAnswer, error) {
	node := o.node.Load()
	if node == nil {
		return statusAnswer{}, errAskEarly
	}
	var answer any
	if h := o.local.Load(); !q.Callers {
		answer = adminapi.StatusOf(node.Status(), o.build)
	} else if h != nil && h.contests != nil {
		answer = h.contests.log.listCallers()
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return statusAnswer{}, err
	}
	if most := min(q.MostBytes, maxStatusBytes); len(text) > most {
		return statusAnswer{}, fmt.Errorf("the status has %d bytes: the limit is %d", len(text), most)
	}
	return statusAnswer{text}, nil
}

// answerForward performs an action on this node for another member, and logs it.
func (o *Others) answerForward(
	ctx context.Context, from member.Member, q forwardQuestion,
) (forwardAnswer, error) {
	h := o.local.Load()
	timeout := min(time.Duration(q.TimeoutMS)*time.Millisecond, adminapi.ActTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	value, err := h.actForMember(ctx, from, q)
	if from.Status != member.Active {
		q.Caller = "" // a member has checked its caller; others have not
	}
	e := adminapi.Action{
		Time: time.Now(), Action: safetext.OneLine(q.Action, maxAuditBytes),
		Request: safetext.OneLine(string(q.Body), maxAuditBytes), Outcome: adminapi.OutcomeOK,
		Caller: safetext.OneLine("via "+from.Name+": "+q.Caller, maxAuditBytes),
		Remote: from.Address.String(),
	}
	a := forwardAnswer{http.StatusOK, adminapi.Encode(value)}
	if err != nil {
		e.Outcome = codeOf(err)
		a = forwardAnswer{statusOf(err), adminapi.Encode(adminapi.ErrorBody{
			Error: safetext.OneLine(textOf(err), maxForwardBytes/8), Code: e.Outcome})}
	}
	o.audit.logAction(ctx, e, "", "")
	if h != nil && !e.IsRefused() {
		h.publishAction(e)
	}
	return a, nil
}

// actForMember performs an action that another member has forwarded. h is nil if this node accepts
// no write requests.
func (h *handler) actForMember(
	ctx context.Context, from member.Member, q forwardQuestion,
) (any, error) {
	switch {
	case h == nil:
		return nil, readOnly()
	case from.Status != member.Active: // an observer, or a peer that has not joined
		return nil, &refusal{http.StatusForbidden, adminapi.CodeForbidden, "only active members can act"}
	case len(q.Body) > maxForwardBytes:
		return nil, &refusal{http.StatusRequestEntityTooLarge, adminapi.CodeTooLarge, "too large"}
	}
	invalid := func(err error) error {
		return &refusal{http.StatusBadRequest, adminapi.CodeBadRequest, "invalid body: " + err.Error()}
	}
	switch q.Action {
	case actTransfer:
		var body adminapi.TransferRequest
		if err := json.Unmarshal(q.Body, &body); err != nil {
			return nil, invalid(err)
		}
		return h.transferHere(ctx, body)
	case actDrain:
		return h.drainHere(ctx)
	case actPrefer:
		var body adminapi.PreferRequest
		if err := json.Unmarshal(q.Body, &body); err != nil {
			return nil, invalid(err)
		}
		return h.preferHere(ctx, body)
	default:
		return nil, invalid(fmt.Errorf("unknown action %q", q.Action))
	}
}

// forwardAction lets another member act on itself.
func (h *handler) forwardAction(
	ctx context.Context, to member.Address, action string, body any,
) (any, error) {
	q := forwardQuestion{Action: action, Body: adminapi.Encode(body)}
	if a := actionOf(ctx); a != nil {
		q.Caller = a.entry.Caller + " at " + a.entry.Remote
	}
	deadline, _ := ctx.Deadline() // handleAct has set it
	q.TimeoutMS = (time.Until(deadline) - forwardMargin).Milliseconds()
	node := h.others.node.Load()
	if node == nil {
		return nil, noForward(to, errAskEarly)
	}
	a, err := cluster.Request[forwardAnswer](ctx, node, to, q)
	_, early := errors.AsType[*cluster.HandlerError](err)
	switch {
	case errors.Is(err, cluster.ErrUnknownType):
		return nil, noForward(to, errNoForward)
	case early:
		return nil, noForward(to, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", to, err)
	}
	var e adminapi.ErrorBody
	var done adminapi.HandedOver
	switch {
	case a.Status == http.StatusOK && len(a.JSON) <= maxForwardBytes &&
		json.Unmarshal(a.JSON, &done) == nil:
		if done.Leader != nil {
			done.Leader.Name = safetext.PeerText(done.Leader.Name)
		}
		return done, nil
	case a.Status >= http.StatusBadRequest && a.Status < 600 && len(a.JSON) <= maxForwardBytes &&
		json.Unmarshal(a.JSON, &e) == nil:
		return nil, &refusal{a.Status, safetext.PeerText(e.Code),
			to.String() + ": " + safetext.OneLine(e.Error, maxForwardBytes)}
	default:
		return nil, fmt.Errorf("%s: %w: invalid response", to, cluster.ErrUnknownOutcome)
	}
}

// noForward returns the error for a member that was not asked to act, or did not understand it.
func noForward(to member.Address, why error) error {
	return &refusal{http.StatusGatewayTimeout, adminapi.CodeNoAnswer, fmt.Sprintf(
		"cannot forward the request to %s: %v; send it to the admin API of that member", to, why)}
}

// findOther returns the address of a member other than this node. It returns the zero address if
// name is empty or stands for this node.
func (h *handler) findOther(name string) (member.Address, error) {
	if name == "" {
		return member.Address{}, nil
	}
	m, err := h.findMember("member", name)
	switch {
	case err != nil:
		return member.Address{}, err
	case m.Address == h.node.Status().Self.Address:
		return member.Address{}, nil
	case h.others == nil:
		return member.Address{}, noForward(m.Address, errAskDisabled)
	default:
		return m.Address, nil
	}
}

// askMember requests the status of an active member. It blocks for at most askTimeout.
func (o *Others) askMember(ctx context.Context, to member.Address) (adminapi.Status, error) {
	select {
	case o.asking <- struct{}{}:
		defer func() { <-o.asking }()
		return o.requestStatus(ctx, to)
	default:
		return adminapi.Status{}, errAskBusy
	}
}

// askEach calls the function ask for 0 to n-1 concurrently, and blocks for at most askTimeout. Each
// goroutine needs a slot of asking, so that concurrent calls in a large cluster cannot start many.
func (o *Others) askEach(ctx context.Context, n int, ask func(ctx context.Context, i int)) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var requests sync.WaitGroup
	defer requests.Wait()
	for i := range n {
		select {
		case o.asking <- struct{}{}:
		case <-ctx.Done():
			return
		}
		requests.Go(func() {
			defer func() { <-o.asking }()
			ask(ctx, i)
		})
	}
}

// addBuilds sets the build of each member in s that answers.
func (h *handler) addBuilds(ctx context.Context, s adminapi.Status) {
	others := make([]*adminapi.Member, 0, len(s.View.Members))
	for i := range s.View.Members {
		if m := &s.View.Members[i]; m.Address == s.Self.Address {
			m.Build = s.Build
		} else if h.others != nil {
			others = append(others, m)
		}
	}
	h.others.askEach(ctx, len(others), func(ctx context.Context, i int) {
		if answer, err := h.others.requestStatus(ctx, others[i].Address); err == nil {
			others[i].Build = safetext.PeerText(answer.Build)
		}
	})
}

// requestStatus sends a status request. The caller must hold a slot of asking.
func (o *Others) requestStatus(
	ctx context.Context, to member.Address,
) (s adminapi.Status, err error) {
	return s, o.requestAnswer(ctx, to, statusQuestion{MostBytes: maxStatusBytes}, &s)
}

// askCallers requests the callers of an active member. The caller must hold a slot of asking.
func (o *Others) askCallers(
	ctx context.Context, to member.Address,
) (all []adminapi.Caller, err error) {
	return all, o.requestAnswer(ctx, to, statusQuestion{maxStatusBytes, true}, &all)
}

// requestAnswer sends a request, and decodes the response.
func (o *Others) requestAnswer(
	ctx context.Context, to member.Address, q statusQuestion, into any,
) error {
	node := o.node.Load()
	if node == nil {
		return errAskEarly
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	a, err := cluster.Request[statusAnswer](ctx, node, to, q)
	if err != nil {
		return err
	}
	if len(a.JSON) > maxStatusBytes {
		return fmt.Errorf("the response has %d bytes: the limit is %d", len(a.JSON), maxStatusBytes)
	}
	if err := json.Unmarshal(a.JSON, into); err != nil {
		return fmt.Errorf("invalid response: %w", err)
	}
	return nil
}

// listEntries returns the members of the view, and the node itself even if it is not a member.
func (h *handler) listEntries() []adminapi.Entry {
	s := h.node.Status()
	var all []adminapi.Entry
	count := map[string]int{}
	known := false
	for _, m := range s.View.Members {
		status := m.Shown()
		e := adminapi.Entry{
			Name: m.Name, Address: m.Address, Self: m.Address == s.Self.Address,
			Alive: status != member.Unreachable && status != member.Removed,
		}
		e.Alive = e.Alive || e.Self
		known = known || e.Self
		count[e.Name]++
		all = append(all, e)
	}
	if !known {
		count[s.Self.Name]++
		all = append(all, adminapi.Entry{Name: s.Self.Name, Address: s.Self.Address, Alive: true,
			Self: true})
	}
	for i, e := range all {
		if count[e.Name] > 1 || e.Name == "" {
			all[i].Name = e.Address.String()
		}
	}
	return all
}

func (h *handler) serveNodes(w http.ResponseWriter, _ *http.Request) {
	adminapi.WriteJSON(w, http.StatusOK, h.listEntries())
}

// nodeStatus responds with the status of one member, from that member.
func (h *handler) nodeStatus(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	for _, e := range h.listEntries() {
		switch {
		case e.Name != name:
			continue
		case e.Self:
			h.serveStatus(w, r)
			return
		}
		s, err := h.ask(r.Context(), e.Address)
		if err != nil {
			adminapi.WriteError(w, http.StatusGatewayTimeout, adminapi.CodeNoAnswer,
				"no response from "+name+": "+err.Error())
			return
		}
		adminapi.WriteJSON(w, http.StatusOK, s)
		return
	}
	adminapi.WriteError(w, http.StatusNotFound, adminapi.CodeNotFound,
		"no such node: "+name+"; GET /v1/nodes lists them")
}

func askDisabled(context.Context, member.Address) (adminapi.Status, error) {
	return adminapi.Status{}, errAskDisabled
}
