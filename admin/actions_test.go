// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// acting is a node that records its write operations and returns fixed results.
type acting struct {
	err   error         // of every verb
	blink chan struct{} // if not nil, operations block until blink is closed or ctx ends
	calls []string
}

func (a *acting) do(ctx context.Context, format string, args ...any) error {
	a.calls = append(a.calls, fmt.Sprintf(format, args...))
	if a.blink == nil {
		return a.err
	}
	select {
	case <-a.blink:
		return a.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", cluster.ErrNoQuorum, context.Cause(ctx))
	}
}

func (a *acting) Send(
	ctx context.Context, to member.Address, event any, _ ...cluster.SendOption,
) error {
	e := event.(receiver.JSON)
	return a.do(ctx, "send %s %s to %s", e.Name, e.Text, to)
}

func (a *acting) Broadcast(ctx context.Context, event any, _ ...cluster.SendOption) error {
	e := event.(receiver.JSON)
	return a.do(ctx, "broadcast %s %s", e.Name, e.Text)
}

func (a *acting) Transfer(ctx context.Context, to member.Address) error {
	return a.do(ctx, "transfer %s", to)
}

func (a *acting) Drain(ctx context.Context) error { return a.do(ctx, "drain") }

func (a *acting) Prefer(ctx context.Context, p member.Preference) error {
	return a.do(ctx, "prefer %v", p)
}

func (a *acting) ReleaseSeats(ctx context.Context, keep int) error {
	return a.do(ctx, "keep %d", keep)
}

func (a *acting) SetLabels(ctx context.Context, labels map[string]string) error {
	return a.do(ctx, "labels %v", labels)
}

// post returns a POST request with a JSON body.
func post(h http.Handler, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestActs checks that each POST calls its operation and responds with the result.
func TestActs(t *testing.T) {
	const led = `{"leader": {"address": "10.0.0.2:7000", "name": "n2",
		"version": 4, "version_text": "4", "token": 4, "token_text": "4",
		"fencing_token": "4000000000000"}}`
	node := leading(t)
	twins := leading(t)
	twins.View.Members[2].Name = "n1"
	for _, c := range []struct {
		name       string
		node       fake
		path, body string
		code       int
		want, call string
	}{
		{"transfer", node, "/v1/transfer", `{}`, 200, led, "transfer -"},
		{"transfer without a body", node, "/v1/transfer", ``, 200, led, "transfer -"},
		{"transfer to an address", node, "/v1/transfer", `{"to": "10.0.0.1:7000"}`, 200, led,
			"transfer 10.0.0.1:7000"},
		{"transfer to an address in another form", node, "/v1/transfer",
			`{"to": "[::ffff:a00:1]:7000"}`, 200, led, "transfer 10.0.0.1:7000"},
		{"transfer to a name", node, "/v1/transfer", `{"to": "n1"}`, 200, led,
			"transfer 10.0.0.1:7000"},
		{"transfer to an unknown member", node, "/v1/transfer", `{"to": "n9"}`, 409, "not_active", ""},
		{"transfer to one of two", twins, "/v1/transfer", `{"to": "n1"}`, 400, "bad_request", ""},
		{"drain", node, "/v1/drain", `{}`, 200, led, "drain"},
		{"drain without a leader", leaderless(t), "/v1/drain", ``, 200, `{"leader": null}`, "drain"},
		{"leave", node, "/v1/leave", `{}`, 202, `{"status": "leaving"}`, "leave"},
		{"send nothing", node, "/v1/send", `{"payload": {}}`, 400, "bad_request", ""},
		{"send no payload", node, "/v1/send", `{"name": "Order"}`, 400, "bad_request", ""},
		{"send to an unknown member", node, "/v1/send", `{"name": "a", "payload": null, "to": "n9"}`, 409,
			"not_active", ""},
		{"broadcast without members", node, "/v1/send", `{"name": "Order", "payload": {"ID": 7}}`, 409,
			"not_active", `broadcast Order {"ID": 7}`},
		{"no JSON", node, "/v1/transfer", `{"to": }`, 400, "bad_request", ""},
		{"two values", node, "/v1/transfer", `{} {}`, 400, "bad_request", ""},
		{"prefer", node, "/v1/prefer", `{"preference": -1}`, 200, led, "prefer never"},
		{"release seats", node, "/v1/seats", `{"keep": 3}`, 200, `{"status": "ok"}`, "keep 3"},
		{"a list", node, "/v1/drain", `[]`, 400, "bad_request", ""},
		{"unknown field", node, "/v1/drain", `{"undo": true}`, 400, "bad_request", ""},
		{"unknown field of leave", node, "/v1/leave", `{"force": true}`, 400, "bad_request", ""},
		{"wrong type", node, "/v1/transfer", `{"to": 1}`, 400, "bad_request", ""},
		{"endless", node, "/v1/send", `{"name": "` + strings.Repeat("a", 70000) + `"}`, 413,
			"too_large", ""},
		{"endless end", node, "/v1/drain", `{}` + strings.Repeat(" ", 70000), 413, "too_large", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &acting{}
			h := admin.New(c.node, "v0.1", admin.WithWrite(a, func() {
				a.calls = append(a.calls, "leave")
			}))
			w := post(h, c.path, c.body)
			if w.Code != c.code {
				t.Fatalf("POST %s %.100s: %d %s, want %d", c.path, c.body, w.Code, w.Body, c.code)
			}
			if got := strings.Join(a.calls, ", "); got != c.call {
				t.Errorf("POST %s %.100s: did %q, want %q", c.path, c.body, got, c.call)
			}
			got := value(t, w.Body.String())
			if c.code >= 400 {
				if code := got.(map[string]any)["code"]; code != c.want {
					t.Errorf("POST %s %.100s: code %v, want %s", c.path, c.body, code, c.want)
				}
				return
			}
			if diff := cmp.Diff(value(t, c.want), got); diff != "" {
				t.Errorf("POST %s %.100s: -want +got:\n%s", c.path, c.body, diff)
			}
		})
	}
}

// TestLabels checks that a request changes only the labels that it names.
func TestLabels(t *testing.T) {
	node := leading(t)
	node.Self.Labels = "rack=1\nzone=a\n"
	tooLong := `{"labels": {"key": "` + strings.Repeat("x", member.MaxLabelBytes) + `"}}`
	for _, c := range []struct {
		body       string
		code       int
		want, call string
	}{
		{`{"labels": {"zone": "b"}}`, 200, `{"labels":{"rack":"1","zone":"b"}}`,
			"labels map[rack:1 zone:b]"},
		{`{"labels": {"rack": null, "none": null}}`, 200, `{"labels":{"zone":"a"}}`,
			"labels map[zone:a]"},
		{`{"labels": {"a=b": "c"}}`, 400, `"code":"bad_request"`, ""},
		{tooLong, 400, `"code":"bad_request"`, ""},
	} {
		a := &acting{}
		w := post(admin.New(node, "", admin.WithWrite(a, nil)), "/v1/labels", c.body)
		got := strings.Join(a.calls, ", ")
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) || got != c.call {
			t.Errorf("%.100s: %d %s, did %q, want %d %s, %q", c.body, w.Code, w.Body, got, c.code,
				c.want, c.call)
		}
	}
}

// TestActErrors checks the status and code of each error of a node.
func TestActErrors(t *testing.T) {
	leader := at(t, "10.0.0.1:7000")
	for _, c := range []struct {
		err  error
		want int
		code string
	}{
		{&cluster.NotLeaderError{Leader: leader}, 409, adminapi.CodeNotLeader},
		{cluster.ErrNotElected, 409, adminapi.CodeNotElected},
		{fmt.Errorf("%w: it is joining", cluster.ErrNotActive), 409, adminapi.CodeNotActive},
		{fmt.Errorf("%w: %w", cluster.ErrNoQuorum, context.DeadlineExceeded), 503, adminapi.CodeNoQuorum},
		{cluster.ErrTooLarge, 413, adminapi.CodeTooLarge},
		{cluster.ErrBusy, 503, adminapi.CodeBusy},
		{cluster.ErrNotDelivered, 503, adminapi.CodeNotDelivered},
		{cluster.ErrUnknownType, 422, adminapi.CodeUnknownType},
		{fmt.Errorf("%w: %w", cluster.ErrUnknownType, receiver.ErrUnsendable), 400,
			adminapi.CodeBadRequest},
		{&cluster.HandlerError{Member: leader, Text: "boom"}, 422, adminapi.CodeHandlerFailed},
		{cluster.ErrUnknownOutcome, 504, adminapi.CodeUnknownOutcome},
		{cluster.ErrClosed, 503, adminapi.CodeClosed},
		{cluster.ErrLeft, 503, adminapi.CodeClosed},
		{errors.New("cluster: other"), 500, adminapi.CodeFailed},
	} {
		h := admin.New(leading(t), "", admin.WithWrite(&acting{err: c.err}, nil))
		w := post(h, "/v1/send", `{"name": "a", "payload": {}, "to": "n1"}`)
		var got struct{ Error, Code string }
		got.Error, _ = value(t, w.Body.String()).(map[string]any)["error"].(string)
		got.Code, _ = value(t, w.Body.String()).(map[string]any)["code"].(string)
		if w.Code != c.want || got.Code != c.code || got.Error == "" ||
			strings.HasPrefix(got.Error, "cluster: ") {
			t.Errorf("%v: %d %+v, want %d %s", c.err, w.Code, got, c.want, c.code)
		}
	}
}

// TestTransferToTheLeader checks that the leader is not reported as inactive.
func TestTransferToTheLeader(t *testing.T) {
	node := leading(t)
	a := &acting{err: fmt.Errorf("%w: it cannot take over", cluster.ErrNotActive)}
	h := admin.New(node, "", admin.WithWrite(a, nil))
	for to, want := range map[string]string{
		node.Self.Name: "leads already", "n1": "it cannot take over",
	} {
		w := post(h, "/v1/transfer", `{"to": "`+to+`"}`)
		if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), want) {
			t.Errorf("to %s: %d %s, want 409, %q", to, w.Code, w.Body, want)
		}
	}
}

// TestActsRefused checks that cross-origin requests, forms and requests to a read-only API are
// refused.
func TestActsRefused(t *testing.T) {
	a := &acting{}
	h := admin.New(leading(t), "", admin.WithWrite(a, func() { t.Error("leave was called") }))
	readOnly := admin.New(leading(t), "")
	for _, path := range []string{
		"/v1/send", "/v1/transfer", "/v1/drain", "/v1/prefer", "/v1/labels", "/v1/seats",
		"/v1/leave",
	} {
		for _, c := range []struct {
			h      http.Handler
			header []string
			want   int
			code   string
		}{
			{readOnly, nil, 403, adminapi.CodeReadOnly},
			{h, []string{"Sec-Fetch-Site", "cross-site"}, 403, adminapi.CodeCrossSite},
			{h, []string{"Sec-Fetch-Site", "same-site"}, 403, adminapi.CodeCrossSite},
			{h, []string{"Origin", "http://evil.example"}, 403, adminapi.CodeCrossSite},
			{readOnly, []string{"Origin", "null"}, 403, adminapi.CodeCrossSite},
			{h, []string{"Content-Type", "text/plain"}, 415, adminapi.CodeBadRequest},
			{h, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, adminapi.CodeBadRequest},
			{h, []string{"Content-Type", ""}, 415, adminapi.CodeBadRequest},
			{h, []string{"Content-Type", "application/json; charset"}, 415, adminapi.CodeBadRequest},
		} {
			w := post(c.h, path, `{}`, c.header...)
			if w.Code != c.want || !strings.Contains(w.Body.String(), `"code":"`+c.code+`"`) {
				t.Errorf("POST %s %q: %d %s, want %d %s", path, c.header, w.Code, w.Body, c.want, c.code)
			}
		}
	}
	if len(a.calls) > 0 {
		t.Errorf("refused requests called %q", a.calls)
	}
	if w := post(h, "/v1/drain", `{}`, "Content-Type", "application/json; charset=utf-8",
		"Sec-Fetch-Site", "same-origin", "Origin", "http://elsewhere"); w.Code != 200 {
		t.Errorf("same-origin request: %d %s, want 200", w.Code, w.Body)
	}
}

// TestLeaveOnce checks that two requests both get a response but leave is called only once.
func TestLeaveOnce(t *testing.T) {
	left := 0
	h := admin.New(leading(t), "", admin.WithWrite(&acting{}, func() { left++ }))
	for range 2 {
		if w := post(h, "/v1/leave", ""); w.Code != 202 || !w.Flushed {
			t.Errorf("POST /v1/leave: %d, flushed %v, want 202, before the node leaves", w.Code, w.Flushed)
		}
	}
	if left != 1 {
		t.Errorf("left %d times, want once", left)
	}
}

// TestActLimits checks that write requests are limited in number and time and do not delay read
// requests.
func TestActLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &acting{blink: make(chan struct{})}
		h := admin.New(leading(t), "", admin.WithWrite(a, nil))
		began := time.Now()
		codes := make(chan int, 100)
		for range cap(codes) {
			go func() { codes <- post(h, "/v1/drain", "").Code }()
			synctest.Wait()
		}
		if got := len(codes); got != 84 {
			t.Errorf("%d of 100 refused while the others wait, want 84", got)
		}
		if w := ask(h, "GET", "/v1/status"); w.Code != 200 {
			t.Errorf("GET /v1/status beside them: %d", w.Code)
		}
		for range cap(codes) {
			if code := <-codes; code != 503 {
				t.Errorf("%d, want 503 busy, or no_quorum", code)
			}
		}
		if took := time.Since(began); took != 15*time.Second || len(a.calls) != 16 {
			t.Errorf("%d calls within %v, want 16 within 15s", len(a.calls), took)
		}
	})
}

// TestActExplainsNoLeader checks that a no-leader error gives the reason why there is no leader.
func TestActExplainsNoLeader(t *testing.T) {
	node := leading(t)
	node.NoLeader = "needs 2 of 3"
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w: %w", cluster.ErrNoQuorum, context.DeadlineExceeded),
			"no quorate leader: needs 2 of 3"},
		{cluster.ErrBusy, strings.TrimPrefix(cluster.ErrBusy.Error(), "cluster: ")},
	} {
		w := post(admin.New(node, "", admin.WithWrite(&acting{err: c.err}, nil)), "/v1/transfer", "")
		if got := value(t, w.Body.String()).(map[string]any)["error"]; got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
