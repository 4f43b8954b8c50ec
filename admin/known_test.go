// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

func answerTo[T any](t *testing.T, h http.Handler, path string) (value T) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil || w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s, %v", path, w.Code, w.Body, err)
	}
	return value
}

// TestJobsWithoutQuorum checks that jobs and records report that they may be outdated, and since
// when.
func TestJobsWithoutQuorum(t *testing.T) {
	since := time.Date(2026, 11, 20, 10, 0, 0, 5, time.UTC)
	for _, quorate := range []bool{true, false} {
		node := leads()
		node.records = []member.Record{{Key: "latch/billing/leader", Value: []byte("h:1")}}
		if !quorate {
			node.status.Token, node.status.View.Quorate = member.Token{}, false
			node.status.LeaderlessSince = since
		}
		h := New(node, "")
		jobs, records := answerTo[[]adminapi.Job](t, h, "/v1/jobs"),
			answerTo[[]adminapi.Record](t, h, "/v1/records")
		if len(jobs) != 1 || jobs[0].Leader == nil || jobs[0].Known != quorate {
			t.Fatalf("quorate %v: jobs %+v, want one with a leader and known %v", quorate, jobs, quorate)
		}
		if at := jobs[0].UnknownSince; quorate != (at == nil) || at != nil && !at.Equal(since) {
			t.Errorf("quorate %v: unknown since %v, want %v, and only without a quorum", quorate, at, since)
		}
		if len(records) != 1 || records[0].Known != quorate {
			t.Errorf("quorate %v: records %+v, want known %v", quorate, records, quorate)
		}
	}
}

// TestSilentPeers checks that the state of a connection is unknown if its peer is silent and no
// leader with authority reports the peer as active.
func TestSilentPeers(t *testing.T) {
	for _, c := range []struct {
		name              string
		connected, silent bool
		token             uint64
		status            member.Status
		want              bool
	}{
		{"heard", true, false, 0, member.Unreachable, true},
		{"a follower of the same leader", true, true, 3, member.Active, true},
		{"cut off from the leader", true, true, 3, member.Unreachable, false},
		{"without a quorum", true, true, 0, member.Active, false},
		{"without a connection", false, true, 0, member.Active, true},
	} {
		node := leads()
		other := member.Member{Name: "n1", Status: c.status}
		other.Address = trioAddress(1)
		node.status.Token = member.Token{Version: c.token}
		node.status.View.Members = append(node.status.View.Members, other)
		node.status.Peers = []transport.PeerState{{Address: other.Address, Connected: c.connected}}
		if c.silent {
			node.status.Silent = []member.Address{other.Address}
		}
		got := answerTo[adminapi.Status](t, New(node, ""), "/v1/status").Peers
		want := []adminapi.Peer{{Address: other.Address, Connected: c.connected, Known: c.want}}
		if !slices.Equal(got, want) {
			t.Errorf("%s: peers %+v, want %+v", c.name, got, want)
		}
	}
}
