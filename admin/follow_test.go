// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

// clientOf returns a client of a node that reports the events of the test.
func clientOf(t *testing.T, node admin.Node) *adminclient.Client {
	t.Helper()
	l, err := admin.Listen("unix:" + filepath.Join(t.TempDir(), "admin"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- admin.Serve(ctx, l, admin.New(node, "v0.1")) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c, err := adminclient.New(admin.AddrOf(l))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClientFollows checks that a client yields the events of the node, as values and as readable
// lines.
func TestClientFollows(t *testing.T) {
	node := living{leading(t), make(chan cluster.Event)}
	c := clientOf(t, node)
	var got []string
	var ids []string
	for e, err := range c.Events(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got, ids = append(got, e.Type+": "+e.String()), append(ids, e.ID)
		switch len(got) {
		case 1:
			want := adminapi.StatusOf(node.Status(), "v0.1")
			if diff := cmp.Diff(&want, e.Snapshot); diff != "" {
				t.Errorf("snapshot: -want +got:\n%s", diff)
			}
			node.joins(18)
		case 2:
			before, after := node.View.Members[0], node.View.Members[0]
			after.Status = member.Active
			node.events <- cluster.MemberChanged{Before: before, Member: after}
		case 3:
			node.events <- cluster.LeaderChanged{Leader: node.View.Members[1], Version: 5, Quorate: true}
		case 4:
			node.events <- cluster.LeaderChanged{}
		case 5:
			node.events <- cluster.Lagged{Missed: 3}
		case 7:
			close(node.events) // ends the loop
		}
	}
	want := []string{
		"snapshot: 1 of 3 members active, leader of version 4 is n2 at 10.0.0.2:7000",
		"member: n3 at 10.0.0.3:7000 is active",
		"member: n1 at 10.0.0.1:7000 is active, was unreachable",
		"leader: leader of version 5 is n2 at 10.0.0.2:7000",
		"leader: no leader",
		"lagged: missed 3 events",
		"snapshot: 1 of 3 members active, leader of version 4 is n2 at 10.0.0.2:7000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var later []string
	for e, err := range c.Events(t.Context(), ids[3]) { // a closed node keeps its last events
		if err != nil {
			t.Fatal(err)
		}
		later = append(later, e.Type+": "+e.String())
	}
	if diff := cmp.Diff(want[4:], later); diff != "" {
		t.Errorf("after %s: -want +got:\n%s", ids[3], diff)
	}
	var recent []string
	for e, err := range c.Recent(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		recent = append(recent, e.Type+": "+e.String())
	}
	if diff := cmp.Diff(append(want[1:6:6], want[0]), recent); diff != "" {
		t.Errorf("recent: -want +got:\n%s", diff)
	}
}

// TestClientStopsFollowing checks that Events stops when the caller stops iterating or the context
// ends.
func TestClientStopsFollowing(t *testing.T) {
	node := living{leading(t), make(chan cluster.Event)}
	defer close(node.events)
	c := clientOf(t, node)
	for range c.Events(t.Context(), "") {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := 0
	for e, err := range c.Events(ctx, "") {
		if err != nil {
			t.Errorf("after the end of its context: %+v, %v, want nothing", e, err)
		}
		events++
		cancel()
	}
	if events != 1 {
		t.Errorf("%d events, want the snapshot", events)
	}
}

// TestClientFollowsOtherServers checks that a response that is not a stream yields an error as the
// last element.
func TestClientFollowsOtherServers(t *testing.T) {
	stream := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(text))
		}
	}
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"busy": {func(w http.ResponseWriter, _ *http.Request) {
			adminapi.WriteError(w, 503, adminapi.CodeBusy, "too many")
		}, "too many"},
		"page":         {func(w http.ResponseWriter, _ *http.Request) {}, "it responded 200 OK"},
		"no JSON":      {stream("event: leader\ndata: {\n\n"), "it responded 200 OK"},
		"endless line": {stream(strings.Repeat("a", 2<<20)), "lost the connection"},
		"new type":     {stream("event: later\ndata: {\n\n:\n\n"), ""},
	} {
		s := httptest.NewServer(c.h)
		client, err := adminclient.New(strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for e, err := range client.Events(t.Context(), "") {
			if last = err; err == nil {
				t.Errorf("%s: %+v, want no event", name, e)
			}
		}
		if c.want == "" && last != nil || c.want != "" && (last == nil ||
			!strings.Contains(last.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, last, c.want)
		}
		s.Close()
	}
}
