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

// Limits of what members tell each other for this API.
const (
	// askTimeout is how long another member may take. A page asks all of them
	// again and again, and one that hangs must not hold up the rest.
	askTimeout = 300 * time.Millisecond
	// maxAsking bounds the questions under way from this node.
	maxAsking = 64
	// maxTelling and maxTold bound the answers that are made at once, and the
	// questions of one member that wait.
	maxTelling = 4
	maxTold    = 16
	// maxStatusBytes bounds a status that travels; one of 255 members has less.
	maxStatusBytes = 512 << 10
)

// Errors of asking another member.
var (
	errAskNobody = errors.New("this program asks no other members (admin.Answer)")
	errAskEarly  = errors.New("this node does not listen yet")
	errAskBusy   = errors.New("too many questions are under way here: ask again")
)

// statusQuestion and statusAnswer travel between members. The answer is that of
// /v1/status, so that fields may come and go as they do there.
type statusQuestion struct {
	MostBytes int `msgpack:"most"` // that the asking side takes
}

type statusAnswer struct {
	JSON []byte `msgpack:"json"`
}

// Others lets the members of a cluster show each other's status: what each of them
// believes is worth more beside what the others do. Its methods may be called from
// any goroutine.
type Others struct {
	build  string
	node   atomic.Pointer[cluster.Node]
	asking chan struct{}
}

// Answer makes the node that gets mux send its status to members that ask for it, and
// returns what WithOthers needs to ask them. build is that of New. A member whose program
// does not call Answer shows as one that does not answer.
func Answer(mux *receiver.Mux, build string) *Others {
	o := &Others{build: build, asking: make(chan struct{}, maxAsking)}
	receiver.HandleRequest(mux, o.tellOther, receiver.Named("athena/status"),
		receiver.Concurrency(maxTelling), receiver.Queue(maxTold, receiver.Reject))
	return o
}

// Use names the node, which is there when it listens: cluster.WithListening takes
// it, or a function that calls it.
func (o *Others) Use(n *cluster.Node) { o.node.Store(n) }

func (o *Others) tellOther(
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
		return statusAnswer{}, fmt.Errorf("the status has %d bytes, at most %d are wanted",
			len(text), most)
	}
	return statusAnswer{text}, nil
}

// askMember asks an active member for its status. It blocks until the member has answered, for
// at most askTimeout, or until ctx ends.
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
		return adminapi.Status{}, fmt.Errorf("its answer has %d bytes", len(a.JSON))
	}
	var s adminapi.Status
	if err := json.Unmarshal(a.JSON, &s); err != nil {
		return adminapi.Status{}, fmt.Errorf("its answer is none: %w", err)
	}
	return s, nil
}

// listEntries lists the members of the view, and the node itself where it is none.
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

// nodeStatus lets one member answer for itself.
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
				"no answer from "+name+": "+err.Error())
			return
		}
		adminapi.WriteJSON(w, http.StatusOK, s)
		return
	}
	adminapi.WriteError(w, http.StatusNotFound, adminapi.CodeNotFound,
		"there is no node "+name+"; see /v1/nodes")
}

func askNobody(context.Context, member.Address) (adminapi.Status, error) {
	return adminapi.Status{}, errAskNobody
}
