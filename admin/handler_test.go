// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/transport"
)

// fake is a node with a fixed status.
type fake cluster.Status

func (f fake) Status() cluster.Status { return cluster.Status(f) }
func (fake) Records() record.Store    { return record.NewMemory().Store("h:1") }

// Events returns no events, like a closed node.
func (f fake) Events(context.Context) iter.Seq[cluster.Event] {
	return func(func(cluster.Event) bool) {}
}

func at(t testing.TB, addr string) member.Address {
	t.Helper()
	a, err := member.ParseAddress(addr)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// leading returns n2, the leader of three members, one of them removed.
func leading(t testing.TB) fake {
	t.Helper()
	entry := func(name, addr string, seed bool, status member.Status, gone bool) member.Member {
		m := member.Member{Name: name, Seed: seed, Status: status, Gone: gone}
		m.Address, m.Incarnation = at(t, addr), 17
		m.StoreID[0] = 0xab
		return m
	}
	members := member.Roster{
		entry("n1", "10.0.0.1:7000", true, member.Unreachable, false),
		entry("n2", "10.0.0.2:7000", true, member.Active, false),
		entry("n3", "10.0.0.3:7000", false, member.Leaving, true),
	}
	return fake{
		Cluster: "orders", ClusterID: member.ClusterID{0x9f},
		Size:   3,
		Quorum: 2,
		Self:   members[1],
		View: member.View{
			Self: members[1].Identity, Role: member.Leading, Version: 4, Revision: 9,
			Leader: members[1].Address, Quorate: true, Members: members,
		},
		Token:          member.Token{Version: 4},
		LeaseRemaining: 812345 * time.Microsecond,
		TermSince:      time.Date(2026, 11, 20, 10, 0, 0, 5, time.UTC),
		LastElection: cluster.Election{
			Cause: cluster.CauseSilence, Version: 4, Took: 431 * time.Millisecond,
			Leader: members[1].Address, Before: members[2].Address,
			Voters: []member.Address{members[0].Address, members[1].Address},
			Steps:  []cluster.Step{{Name: "lost"}, {Name: "quorate", After: 1500}},
			Ended:  time.Date(2026, 11, 20, 10, 0, 0, 5, time.UTC),
		},
		OtherSeeds: []member.Address{members[2].Address},
		PeerFaults: []cluster.PeerFault{
			{Address: member.Address{Host: "10.0.0.5", Port: 7000}, Why: "refused"},
		},
		MissingSeeds: []cluster.MissingSeed{
			{Address: member.Address{Host: "10.0.0.4", Port: 7000}, Why: "no answer"},
		},
		Uptime: time.Minute,
		Transport: transport.Stats{
			Handshakes: map[string]uint64{"established": 2, "certificate refused": 7},
			Sent:       [transport.Kinds]transport.Traffic{{Messages: 5, Bytes: 50}},
			Received:   [transport.Kinds]transport.Traffic{{}, {Messages: 2, Bytes: 9}},
		},
		Peers: []transport.PeerState{
			{Address: members[2].Address},
			{Address: members[0].Address, Connected: true, RTT: 412 * time.Microsecond},
		},
		Receivers: []receiver.Stats{
			{Dropped: 1},
			{Event: "A", Queued: 2, Handled: 30, Failed: 1, Panicked: 1, Malformed: 1, Rejected: 3,
				Slowest: receiver.SlowHandler{
					Event: "A", From: members[0].Address, Running: 6500 * time.Millisecond, Waiting: 2}},
			{Event: "B", Handled: 4, Slowest: receiver.SlowHandler{Event: "B", Running: 6 * time.Second}},
		},
	}
}

// joining returns a node that has not found any other node.
func joining() fake {
	return fake{Cluster: "c", Size: 3, Quorum: 2, NoLeader: "asked 10.0.0.9:7000 (no answer)"}
}

// leaderless returns n2 without a leader.
func leaderless(t *testing.T) fake {
	t.Helper()
	f := leading(t)
	f.View.Role, f.View.Leader, f.View.Quorate = member.Seeking, member.Address{}, false
	f.Token, f.LeaseRemaining, f.TermSince = member.Token{}, 0, time.Time{}
	f.NoLeader = "needs 2 of the 3 voters"
	return f
}

// provisional returns n2 as a provisional leader, without votes.
func provisional(t *testing.T) fake {
	t.Helper()
	f := leaderless(t)
	f.View.Role, f.View.Leader, f.Provisional = member.Provisional, f.Self.Address, true
	return f
}

// following returns n1, active, with the leader n2.
func following(t *testing.T) fake {
	t.Helper()
	f := leading(t)
	f.View.Members[0].Status = member.Active
	f.Self = f.View.Members[0]
	f.View.Self, f.View.Role, f.LeaseRemaining = f.Self.Identity, member.Following, 0
	return f
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// statusShape is the JSON of the status that leading returns.
const statusShape = `{
	"cluster": "orders", "cluster_id": "9f000000000000000000000000000000", "size": 3, "quorum": 2,
	"self": {
		"name": "n2", "address": "10.0.0.2:7000", "seed": true,
		"store_id": "ab000000000000000000000000000000", "incarnation": 17, "incarnation_text": "17"
	},
	"role": "leader",
	"view": {
		"version": 4, "version_text": "4", "revision": 9, "revision_text": "9",
		"leader": "10.0.0.2:7000", "quorate": true,
		"members": [
			{"name": "n1", "address": "10.0.0.1:7000", "seed": true,
				"status": "unreachable", "incarnation": 17, "incarnation_text": "17"},
			{"name": "n2", "address": "10.0.0.2:7000", "seed": true,
				"status": "active", "incarnation": 17, "incarnation_text": "17"},
			{"name": "n3", "address": "10.0.0.3:7000", "seed": false,
				"status": "removed", "incarnation": 17, "incarnation_text": "17"}
		]
	},
	"token": 4, "token_text": "4", "fencing_token": "4000000000000", "lease_remaining_ms": 812.345,
	"term_since": "2026-11-20T10:00:00.000000005Z",
	"last_election": {"cause": "silence", "version": 4, "version_text": "4", "took_ms": 431,
		"votes": ["10.0.0.1:7000", "10.0.0.2:7000"], "leader": "10.0.0.2:7000",
		"before": "10.0.0.3:7000", "ended": "2026-11-20T10:00:00.000000005Z",
		"steps": [{"name": "lost", "after_ms": 0}, {"name": "quorate", "after_ms": 0.001}]},
	"no_leader": "", "not_saving": "", "save_ms": 0, "other_seeds": ["10.0.0.3:7000"],
	"missing_seeds": [{"address": "10.0.0.4:7000", "why": "no answer"}],
	"peer_faults": [{"address": "10.0.0.5:7000", "why": "refused"}],
	"handshakes": {"established": 2, "refused": 0, "refused by peer": 0, "duplicate": 0,
		"failed": 0, "certificate refused": 7, "too many observers": 0, "address claimed": 0,
		"earlier run": 0},
	"peers": [{"address": "10.0.0.1:7000", "connected": true, "known": true, "rtt_ms": 0.412},
		{"address": "10.0.0.3:7000", "connected": false, "known": true, "rtt_ms": 0}],
	"traffic": {
		"sent": {"system": {"messages": 5, "bytes": 50}, "custom": {"messages": 0, "bytes": 0},
			"request": {"messages": 0, "bytes": 0}, "nested": {"messages": 0, "bytes": 0},
			"answer": {"messages": 0, "bytes": 0}},
		"received": {"system": {"messages": 0, "bytes": 0}, "custom": {"messages": 2, "bytes": 9},
			"request": {"messages": 0, "bytes": 0}, "nested": {"messages": 0, "bytes": 0},
			"answer": {"messages": 0, "bytes": 0}}
	},
	"events": {"handled": 34, "failed": 3, "dropped": 4, "waiting": 2,
		"slowest": {"event": "A", "from": "10.0.0.1:7000", "running_ms": 6500, "waiting": 2}},
	"write": false, "drained": false, "uptime_ms": 60000, "protocol": 3, "build": "v0.1"
}`

// noFrames is the JSON of the traffic in one direction without frames.
const noFrames = `{"system": {"messages": 0, "bytes": 0}, "custom": {"messages": 0, "bytes": 0},
			"request": {"messages": 0, "bytes": 0}, "nested": {"messages": 0, "bytes": 0},
	"answer": {"messages": 0, "bytes": 0}}`

// TestUnknownQueryNamesTheKnown parameters.
func TestUnknownQueryNamesTheKnown(t *testing.T) {
	h := admin.New(leading(t), "")
	for path, want := range map[string]string{
		"/readyz?leaders":  "accepts ?quorum and ?leader and ?votes",
		"/livez?leader":    "/livez accepts no query",
		"/readyz?leader=x": "must be empty, true, 1, false or 0",
	} {
		if got := ask(h, "GET", path).Body.String(); !strings.Contains(got, want) {
			t.Errorf("GET %s: %s, want %q in it", path, got, want)
		}
	}
}

// TestStatusShape checks the response fields that scripts rely on.
func TestStatusShape(t *testing.T) {
	for _, c := range []struct {
		name string
		node fake
		path string
		code int
		want string
	}{
		{"status", leading(t), "/v1/status", 200, statusShape},
		{"members", leading(t), "/v1/members", 200, `[
			{"name": "n1", "address": "10.0.0.1:7000", "seed": true,
				"status": "unreachable", "incarnation": 17, "incarnation_text": "17"},
			{"name": "n2", "address": "10.0.0.2:7000", "seed": true,
				"status": "active", "incarnation": 17, "incarnation_text": "17"},
			{"name": "n3", "address": "10.0.0.3:7000", "seed": false,
				"status": "removed", "incarnation": 17, "incarnation_text": "17"}]`},
		{"no members", fake{}, "/v1/members", 200, `[]`},
		{"leader", leading(t), "/v1/leader", 200,
			`{"address": "10.0.0.2:7000", "name": "n2",
				"version": 4, "version_text": "4", "token": 4, "token_text": "4",
				"fencing_token": "4000000000000"}`},
		{"no leader", leaderless(t), "/v1/leader", 503,
			`{"error": "no leader has the support of a majority: needs 2 of the 3 voters",
				"code": "no_quorum"}`},
		{"joining", joining(), "/v1/status", 200, `{
			"cluster": "c", "cluster_id": "", "size": 3, "quorum": 2,
			"self": {"name": "", "address": "", "seed": false,
				"store_id": "00000000000000000000000000000000", "incarnation": 0, "incarnation_text": "0"},
			"role": "joining", "token": 0, "token_text": "0", "fencing_token": "0", "view": {
				"version": 0, "version_text": "0", "revision": 0, "revision_text": "0", "leader": "",
				"quorate": false, "members": []},
			"lease_remaining_ms": 0, "term_since": null, "last_election": null,
			"no_leader": "asked 10.0.0.9:7000 (no answer)", "not_saving": "", "save_ms": 0,
			"other_seeds": [], "missing_seeds": [], "peer_faults": [],
			"handshakes": {"established": 0, "refused": 0, "refused by peer": 0, "duplicate": 0,
			"failed": 0, "certificate refused": 0, "too many observers": 0, "address claimed": 0,
		"earlier run": 0},
			"peers": [], "traffic": {"sent": ` + noFrames + `, "received": ` + noFrames + `},
			"events": {"handled": 0, "failed": 0, "dropped": 0, "waiting": 0, "slowest": null},
			"write": false, "drained": false, "uptime_ms": 0, "protocol": 3, "build": "v0.1"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ask(admin.New(c.node, "v0.1"), "GET", c.path)
			if w.Code != c.code || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("GET %s: code %d, content type %q, want %d, application/json",
					c.path, w.Code, w.Header().Get("Content-Type"), c.code)
			}
			if diff := cmp.Diff(value(t, c.want), value(t, w.Body.String())); diff != "" {
				t.Errorf("GET %s: -want +got:\n%s", c.path, diff)
			}
		})
	}
}

func value(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, text)
	}
	return v
}

func TestHealth(t *testing.T) {
	unreachable := leading(t)
	unreachable.Self = unreachable.View.Members[0]
	lapsed := leading(t) // elected, but its lease has expired
	lapsed.Token, lapsed.View.Quorate = member.Token{}, false
	follower := provisional(t) // follows a provisional leader
	follower.View.Role, follower.View.Leader = member.Following, follower.View.Members[0].Address
	restarted := leaderless(t) // in its view, its previous run is still active
	restarted.Self.Status = member.None
	waiting := leading(t)
	waiting.VoteWait = time.Second
	stalled, leads := following(t), leading(t) // follows, and leads until its lease ends
	stalled.NotSaving, leads.NotSaving = "the disk does not answer", "the disk does not answer"
	for _, c := range []struct {
		name string
		node fake
		path string
		want int
		code string
	}{
		{"live while joining", fake{}, "/livez", 200, ""},
		{"live without a leader", leaderless(t), "/livez", 200, ""},
		{"joining", fake{}, "/readyz", 503, adminapi.CodeNotActive},
		{"unreachable", unreachable, "/readyz", 503, adminapi.CodeNotActive},
		{"active", leaderless(t), "/readyz", 200, ""},
		{"provisional leader", provisional(t), "/readyz", 503, adminapi.CodeNotActive},
		{"provisional leader itself", provisional(t), "/readyz?leader", 503, adminapi.CodeNotActive},
		{"follower of a provisional leader", follower, "/readyz", 503, adminapi.CodeNotActive},
		{"after a restart", restarted, "/readyz", 503, adminapi.CodeNotActive},
		{"active without quorum", leaderless(t), "/readyz?quorum", 503, adminapi.CodeNoQuorum},
		{"active without leader", leaderless(t), "/readyz?leader", 503, adminapi.CodeNoQuorum},
		{"follower with quorum", following(t), "/readyz?quorum", 200, ""},
		{"follower is no leader", following(t), "/readyz?leader", 503, adminapi.CodeNotLeader},
		{"leader", leading(t), "/readyz?leader", 200, ""},
		{"leader and quorum", leading(t), "/readyz?leader&quorum", 200, ""},
		{"active for long", leading(t), "/readyz?votes", 200, ""},
		{"active since a moment", waiting, "/readyz?votes", 503, adminapi.CodeNotVoting},
		{"active without a leader", leaderless(t), "/readyz?votes", 503, adminapi.CodeNoQuorum},
		{"active since a moment, for work", waiting, "/readyz", 200, ""},
		{"disk stalled", stalled, "/livez", 200, ""},
		{"disk stalled", stalled, "/readyz", 503, adminapi.CodeNotSaving},
		{"disk stalled", stalled, "/readyz?votes", 503, adminapi.CodeNotSaving},
		{"disk stalled", stalled, "/readyz?quorum", 503, adminapi.CodeNotSaving},
		{"disk stalled", stalled, "/readyz?leader", 503, adminapi.CodeNotSaving},
		{"disk of the leader stalled", leads, "/readyz", 503, adminapi.CodeNotSaving},
		{"disk of the leader stalled", leads, "/readyz?leader", 200, ""},
		{"disk of the leader stalled", leads, "/readyz?leader&votes", 503, adminapi.CodeNotSaving},
		{"leader without lease", lapsed, "/readyz?leader", 503, adminapi.CodeNoQuorum},
		{"leader=true", following(t), "/readyz?leader=true", 503, adminapi.CodeNotLeader},
		{"leader=1", following(t), "/readyz?leader=1", 503, adminapi.CodeNotLeader},
		{"leader=", following(t), "/readyz?leader=", 503, adminapi.CodeNotLeader},
		{"leader=false", following(t), "/readyz?leader=false", 200, ""},
		{"quorum=0", leaderless(t), "/readyz?quorum=0", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ask(admin.New(c.node, ""), "GET", c.path)
			var got struct{ Code, Error string }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			why := c.node.NotSaving + c.node.NoLeader
			if c.want != 200 && !strings.HasSuffix(got.Error, why) {
				t.Errorf("GET %s: error %q, want it to end with the reason %q", c.path, got.Error, why)
			}
			if w.Code != c.want || got.Code != c.code {
				t.Errorf("GET %s: %d %q, want %d %q", c.path, w.Code, got.Code, c.want, c.code)
			}
		})
	}
}

func TestWrongRequests(t *testing.T) {
	h := admin.New(leading(t), "")
	for _, c := range []struct {
		method, path string
		want         int
		code         string
	}{
		{"POST", "/v1/status", 405, adminapi.CodeMethodNotAllowed},
		{"PUT", "/v1/members", 405, adminapi.CodeMethodNotAllowed},
		{"DELETE", "/v1/leader", 405, adminapi.CodeMethodNotAllowed},
		{"POST", "/livez", 405, adminapi.CodeMethodNotAllowed},
		{"OPTIONS", "/readyz", 405, adminapi.CodeMethodNotAllowed},
		{"GET", "/v1/send", 405, adminapi.CodeMethodNotAllowed},
		{"GET", "/v1/leave", 405, adminapi.CodeMethodNotAllowed},
		{"POST", "/v1/events", 405, adminapi.CodeMethodNotAllowed},
		{"GET", "/ui/", 404, adminapi.CodeNotFound},
		{"GET", "/ui/nothing.js", 404, adminapi.CodeNotFound},
		{"GET", "/ui/vendor", 404, adminapi.CodeNotFound},
		{"POST", "/", 405, adminapi.CodeMethodNotAllowed},
		{"POST", "/ui/main.js", 405, adminapi.CodeMethodNotAllowed},
		{"GET", "/v1", 404, adminapi.CodeNotFound},
		{"GET", "/v1/status/", 404, adminapi.CodeNotFound},
		{"GET", "/v2/status", 404, adminapi.CodeNotFound},
		{"GET", "/debug/pprof/", 404, adminapi.CodeNotFound},
		{"GET", "/debug/vars", 404, adminapi.CodeNotFound},
		{"POST", "/v1/nothing", 404, adminapi.CodeNotFound},
		{"GET", "/readyz?leaders", 400, adminapi.CodeBadQuery},
		{"GET", "/readyz?leader&Quorum", 400, adminapi.CodeBadQuery},
		{"GET", "/readyz?leader=no", 400, adminapi.CodeBadQuery},
		{"GET", "/readyz?leader&leader=false", 400, adminapi.CodeBadQuery},
		{"GET", "/readyz?leader;quorum", 400, adminapi.CodeBadQuery},
		{"GET", "/livez?leader", 400, adminapi.CodeBadQuery},
		{"GET", "/v1/events?from=1", 400, adminapi.CodeBadQuery},
		{"GET", "/v1/events?follow=maybe", 400, adminapi.CodeBadQuery},
		{"GET", "/v1/events?%zz", 400, adminapi.CodeBadQuery},
	} {
		w := ask(h, c.method, c.path)
		var got struct{ Error, Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Errorf("%s %s: %v in %q", c.method, c.path, err, w.Body)
			continue
		}
		if w.Code != c.want || got.Code != c.code || got.Error == "" {
			t.Errorf("%s %s: %d %+v, want %d %q", c.method, c.path, w.Code, got, c.want, c.code)
		}
		allow := "GET, HEAD"
		if c.method == "GET" {
			allow = "POST"
		}
		if got := w.Header().Get("Allow"); c.want == 405 && got != allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, got, allow)
		}
	}
}
