// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

// healthPaths are open to callers without the token and with any Host, since probes and load
// balancers have no token and may send a different Host.
var healthPaths = []string{"/livez", "/readyz"}

func isHealth(r *http.Request) bool { return slices.Contains(healthPaths, r.URL.Path) }

// serveLive responds 200 if the status of the node can be read.
func (h *handler) serveLive(w http.ResponseWriter, r *http.Request) {
	if _, err := readQuery(r); err != nil {
		adminapi.WriteError(w, http.StatusBadRequest, adminapi.CodeBadQuery, err.Error())
		return
	}
	h.readStatus()
	writeOK(w)
}

// serveReady responds 200 if this process is an active member of a cluster with an elected leader,
// and can save. The node stays ready during an election, since otherwise every failover would take
// all nodes out of service. A load balancer for the leader uses ?leader.
func (h *handler) serveReady(w http.ResponseWriter, r *http.Request) {
	want, err := readQuery(r, wantQuorum, wantLeader, wantVotes)
	if err != nil {
		adminapi.WriteError(w, http.StatusBadRequest, adminapi.CodeBadQuery, err.Error())
		return
	}
	node := h.node.Status()
	s := adminapi.StatusOf(node, h.build)
	_, quorate := s.LeaderOf()
	switch {
	case node.Self.Status != member.Active || node.Provisional:
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeNotActive,
			addReason("this node is not an active member of its cluster yet", s))
	case node.NotSaving != "" && (want[wantVotes] || !want[wantLeader] || !s.IsLeader()):
		// The leader keeps its work while it has authority: no other node could do it.
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeNotSaving, node.NotSaving)
	case want[wantVotes] && node.VoteWait > 0:
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeNotVoting, fmt.Sprintf(
			"this node has just started: it can vote in %v", node.VoteWait))
	case (want[wantQuorum] || want[wantVotes] || want[wantLeader]) && !quorate:
		noQuorum(w, s)
	case want[wantLeader] && !s.IsLeader():
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeNotLeader,
			"this node is not the leader; "+s.View.Leader.String()+" is")
	default:
		writeOK(w)
	}
}

// hideDetails replaces the text of an error, which may name members and their addresses, with a
// fixed text. It is used for health checks without the token.
func hideDetails(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := responseRecorder{header: http.Header{}, status: http.StatusOK}
		next.ServeHTTP(&a, r)
		if a.status == http.StatusOK {
			writeOK(w)
			return
		}
		var e adminapi.ErrorBody
		_ = json.Unmarshal(a.body.Bytes(), &e) // e is empty if the body is not an ErrorBody
		if allow := a.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
		}
		adminapi.WriteError(w, a.status, e.Code, strings.ToLower(http.StatusText(a.status)))
	})
}

// responseRecorder is an http.ResponseWriter that keeps the response in memory.
type responseRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *responseRecorder) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *responseRecorder) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *responseRecorder) Write(b []byte) (int, error) { return a.body.Write(b) }
