// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// order is an application event.
type order struct {
	ID   uint64
	Item string `msgpack:"item"`
}

// journal records the calls of handlers.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// want checks the calls recorded since it was last called, in any order.
func (j *journal) want(t *testing.T, lines ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.Sort(j.lines)
	if diff := cmp.Diff(lines, j.lines); diff != "" {
		t.Errorf("handlers: -want +got:\n%s", diff)
	}
	j.lines = nil
}

// postTo posts to a node of the cluster.
func (w *trio) postTo(i int, path, body string, into any) (code int) {
	w.t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	h := New(w.nodes[i], "v0.1", WithWrite(w.nodes[i], func() { w.nodes[i].Close() }))
	h.ServeHTTP(rec, r)
	if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
		w.t.Fatalf("POST %s %s: %v in %s", path, body, err, rec.Body)
	}
	return rec.Code
}

// TestSendToTypes checks that handlers of real members receive the JSON as their type, and that the
// response contains the result of each member.
func TestSendToTypes(t *testing.T) {
	seen := &journal{}
	handlers := func(i int, mux *receiver.Mux) {
		if i == 2 {
			return // n2 has no handler for orders
		}
		receiver.Handle(mux, func(_ context.Context, from member.Member, o order) error {
			seen.add("n%d: %+v from %s", i, o, from.Name)
			if i == 1 && o.ID == 13 {
				return errors.New("no such luck")
			}
			return nil
		})
		receiver.Handle(mux, func(ctx context.Context, _ member.Member, _ struct{ A int }) error {
			<-ctx.Done()
			return nil
		}, receiver.Named("slow"))
	}
	inTrioThatHandles(t, handlers, func(t *testing.T, w *trio) {
		handled := func(i int) adminapi.SendResult {
			return adminapi.SendResult{Name: fmt.Sprint("n", i), Address: trioAddress(i),
				Result: adminapi.OutcomeHandled}
		}
		var sent adminapi.Sent
		code := w.postTo(0, "/v1/send",
			`{"name": "order", "payload": {"ID": 18446744073709551615, "item": "pen"}, "to": "n1"}`, &sent)
		if diff := cmp.Diff(adminapi.Sent{Results: []adminapi.SendResult{handled(1)}},
			sent); code != 200 || diff != "" {
			t.Errorf("to one: %d, -want +got:\n%s", code, diff)
		}
		seen.want(t, "n1: {ID:18446744073709551615 Item:pen} from n0")

		code = w.postTo(0, "/v1/send", `{"name": "order", "payload": {"ID": 13}}`, &sent)
		for i := range sent.Results {
			if failed := sent.Results[i].Error; (failed == "") != (i == 0) {
				t.Errorf("result %d: error %q", i, failed)
			}
			sent.Results[i].Error = ""
		}
		failed, unknown := handled(1), handled(2)
		failed.Result, unknown.Result = adminapi.CodeHandlerFailed, adminapi.CodeUnknownType
		diff := cmp.Diff(adminapi.Sent{Results: []adminapi.SendResult{handled(0), failed, unknown}}, sent)
		if code != 200 || diff != "" {
			t.Errorf("to all: %d, -want +got:\n%s", code, diff)
		}
		seen.want(t, "n0: {ID:13 Item:} from n0", "n1: {ID:13 Item:} from n0")

		for body, want := range map[string]string{
			`{"name": "order", "payload": {"ID": "seven"}, "to": "n1"}`:        adminapi.CodeUnknownType,
			`{"name": "order", "payload": {"ID": 13}, "to": "n1"}`:             adminapi.CodeHandlerFailed,
			`{"name": "order", "payload": {}, "to": "n2"}`:                     adminapi.CodeUnknownType,
			`{"name": "slow", "payload": {}, "to": "n1"}`:                      adminapi.CodeUnknownOutcome,
			`{"name": "slow", "payload": 18446744073709551616, "to": "n1"}`:    adminapi.CodeBadRequest,
			`{"name": "order", "payload": [[[[[[[[[]]]]]]]]], "to": "n1"}`:     adminapi.CodeBadRequest,
			`{"name": "LeaderChanged", "payload": {"Quorate": 1}, "to": "n1"}`: adminapi.CodeUnknownType,
		} {
			var e adminapi.ErrorBody
			if code := w.postTo(0, "/v1/send", body, &e); code < 400 || e.Code != want {
				t.Errorf("POST /v1/send %s: %d %+v, want %s", body, code, e, want)
			}
		}
	})
}

// TestHandOverForReal checks that transfer and drain move the leadership between real members, and
// that leave stops one.
func TestHandOverForReal(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		leader := func() int {
			term, err := w.nodes[0].WaitLeader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			at, err := member.ParseAddress(term.Leader())
			if err != nil {
				t.Fatal(err)
			}
			return int(at.Port) - 1
		}
		first := leader()
		other := (first + 1) % 3
		var e adminapi.ErrorBody
		if code := w.postTo(other, "/v1/transfer", "", &e); code != 409 ||
			e.Code != adminapi.CodeNotLeader ||
			!strings.Contains(e.Error, trioAddress(first).String()) {
			t.Errorf("transfer by a follower: %d %+v, want 409 and the leader", code, e)
		}
		var h adminapi.HandedOver
		code := w.postTo(first, "/v1/transfer", fmt.Sprintf(`{"to": "n%d"}`, other), &h)
		if code != 200 || h.Leader == nil || h.Leader.Address != trioAddress(other) {
			t.Fatalf("transfer to n%d: %d %+v", other, code, h.Leader)
		}
		h = adminapi.HandedOver{}
		code = w.postTo(other, "/v1/drain", "", &h)
		if code != 200 || h.Leader == nil || h.Leader.Address == trioAddress(other) {
			t.Fatalf("drain of n%d: %d %+v", other, code, h.Leader)
		}
		last := int(h.Leader.Address.Port) - 1
		code = w.postTo(last, "/v1/transfer", fmt.Sprintf(`{"to": "n%d"}`, other), &h)
		if h = (adminapi.HandedOver{}); code == 200 {
			t.Errorf("transfer to n%d, which is drained: %d", other, code)
		}
		var d adminapi.Done
		if code := w.postTo(other, "/v1/leave", "", &d); code != 202 || d.Status != "leaving" {
			t.Errorf("leave: %d %+v", code, d)
		}
		<-w.nodes[other].Done()
		if code := w.postTo(other, "/v1/drain", "", &e); code != 503 || e.Code != adminapi.CodeClosed {
			t.Errorf("drain of a stopped node: %d %+v, want 503 %s", code, e, adminapi.CodeClosed)
		}
	})
}

// TestEventsForReal checks that the event stream of a real node reports a member that leaves.
func TestEventsForReal(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		f := newFeed(func() adminapi.Status { return adminapi.StatusOf(w.nodes[0].Status(), "") })
		ended := make(chan struct{})
		go func() { defer close(ended); f.followNode(w.nodes[0]) }()
		synctest.Wait()
		if err := w.nodes[2].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var got []string
		for _, e := range f.changesSince(1).entries {
			var c adminapi.MemberChange
			if json.Unmarshal(e.data, &c) == nil && c.Member.Name == "n2" {
				got = append(got, c.Member.Status.String())
			}
		}
		if !slices.Contains(got, "leaving") {
			t.Errorf("n2 has the status %q, want leaving", got)
		}
		w.nodes[0].Close()
		<-ended
		if b := f.changesSince(1); !b.over {
			t.Error("the node has closed, but its stream stays open")
		}
	})
}
