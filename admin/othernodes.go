// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
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
)

// Errors of requests to other members.
var (
	errAskDisabled = errors.New("this program does not query other members (admin.Answer)")
	errAskEarly    = errors.New("this node is not listening yet")
	errAskBusy     = errors.New("busy: too many requests to other members: try again")
)

// statusQuestion and statusAnswer are the request and the response between members. The response
// is the JSON of /v1/status, so that fields can be added and removed.
type statusQuestion struct {
	MostBytes int `msgpack:"most"` // maximum size that the requester accepts
}

type statusAnswer struct {
	JSON []byte `msgpack:"json"`
}

// Others requests the status of other members, and responds to such requests, so that the views of
// all members can be compared. It is safe for concurrent use.
type Others struct {
	build  string
	node   atomic.Pointer[cluster.Node]
	asking chan struct{}
}

// Answer registers a handler in mux that responds to status requests from other members, and
// returns the Others for WithOthers. build is the argument of New. A member whose program does not
// call Answer is shown as not responding.
func Answer(mux *receiver.Mux, build string) *Others {
	o := &Others{build: build, asking: make(chan struct{}, maxAsking)}
	receiver.HandleRequest(mux, o.answerStatus, receiver.Named("athena/status"),
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
	text, err := json.Marshal(adminapi.StatusOf(node.Status(), o.build))
	if err != nil {
		return statusAnswer{}, err
	}
	if most := min(q.MostBytes, maxStatusBytes); len(text) > most {
		return statusAnswer{}, fmt.Errorf("the status has %d bytes: the limit is %d", len(text), most)
	}
	return statusAnswer{text}, nil
}

// askMember requests the status of an active member. It blocks for at most askTimeout.
func (o *Others) askMember(ctx context.Context, to member.Address) (adminapi.Status, error) {
	node := o.node.Load()
	if node == nil {
		return adminapi.Status{}, errAskEarly
	}
	select {
	case o.asking <- struct{}{}:
		defer func() { <-o.asking }()
	default:
		return adminapi.Status{}, errAskBusy
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	a, err := cluster.Request[statusAnswer](ctx, node, to, statusQuestion{maxStatusBytes})
	if err != nil {
		return adminapi.Status{}, err
	}
	if len(a.JSON) > maxStatusBytes {
		return adminapi.Status{}, fmt.Errorf("the response has %d bytes: the limit is %d",
			len(a.JSON), maxStatusBytes)
	}
	var s adminapi.Status
	if err := json.Unmarshal(a.JSON, &s); err != nil {
		return adminapi.Status{}, fmt.Errorf("invalid response: %w", err)
	}
	return s, nil
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
