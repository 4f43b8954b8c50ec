// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/eventname"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// forwarding is a trio whose first two members forward actions, and accept them.
type forwarding struct {
	*trio
	handlers [2]http.Handler
	log      bytes.Buffer // of the second member
}

func newForwarding(w *trio) *forwarding {
	f := &forwarding{trio: w}
	w.others[1].audit.log = slog.New(slog.NewTextHandler(&f.log, nil))
	for i := range f.handlers {
		f.handlers[i] = New(w.nodes[i], "v0.1", WithOthers(w.others[i]),
			WithWrite(w.nodes[i], func() {}))
	}
	return f
}

// post sends a POST request to a member and returns its code.
func (f *forwarding) post(i int, path, body string) (code string, leader string) {
	f.t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	f.handlers[i].ServeHTTP(rec, r)
	var answer struct {
		adminapi.HandedOver
		adminapi.ErrorBody
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil {
		f.t.Fatalf("POST %s: %v in %s", path, err, rec.Body)
	}
	if answer.Leader != nil {
		leader = answer.Leader.Name
	}
	if rec.Code == http.StatusOK {
		answer.Code = "ok"
	}
	return answer.Code, leader
}

// lead makes member i the leader.
func (f *forwarding) lead(i int) {
	f.t.Helper()
	term, err := f.nodes[0].WaitLeader(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	at, err := member.ParseAddress(term.Leader())
	if err == nil && at != trioAddress(i) {
		err = f.nodes[at.Port-1].Transfer(f.t.Context(), trioAddress(i))
	}
	if err != nil {
		f.t.Fatalf("n%d does not lead: %v", i, err)
	}
	synctest.Wait() // all members know that the earlier leader gave up
	for i, n := range f.nodes {
		if _, err := n.WaitLeader(f.t.Context()); err != nil {
			f.t.Fatalf("n%d follows no leader: %v", i, err)
		}
	}
	synctest.Wait() // the leader has their answers
}

// TestForward checks that transfers, drains and preferences reach the leader or the named member
// through another member, and that the member logs and reports them.
func TestForward(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		f := newForwarding(w)
		f.lead(1)
		if code, leader := f.post(0, "/v1/transfer", `{"to":"n0"}`); code != "ok" || leader != "n0" {
			t.Errorf("transfer from n1 to n0: %s, leader %q", code, leader)
		}
		f.lead(1)
		if code, leader := f.post(0, "/v1/drain", `{"member":"n1"}`); code != "ok" || leader == "n1" {
			t.Errorf("drain of n1: %s, leader %q", code, leader)
		}
		if !w.nodes[1].Status().Drained || w.nodes[0].Status().Drained {
			t.Error("drain of n1: another node is drained")
		}
		if code, _ := f.post(0, "/v1/prefer", `{"member":"n1","preference":7}`); code != "ok" {
			t.Errorf("prefer n1 7: %s", code)
		}
		if s := w.nodes[1].Status(); s.Self.Preference != 7 || s.Drained {
			t.Errorf("prefer n1 7: preference %v, drained %t", s.Self.Preference, s.Drained)
		}
		code, _ := f.post(0, "/v1/prefer", `{"member":"n1","preference":101}`)
		if code != adminapi.CodeBadRequest {
			t.Errorf("prefer n1 101: %s, want %s", code, adminapi.CodeBadRequest)
		}
		for _, line := range []string{`action=transfer request="{\"to\":\"n0\"}" outcome=ok`,
			`action=drain request={} outcome=ok`,
			`action=prefer request="{\"preference\":7}" outcome=ok`, "outcome=bad_request",
			`by="via n0: `, "remote=" + trioAddress(0).String()} {
			if !strings.Contains(f.log.String(), line) {
				t.Errorf("no line has %s in:\n%s", line, f.log.String())
			}
		}
		feed := w.others[1].local.Load().streams.feed
		got := fmt.Sprint(feed.changesSince(feed.oldestNumber()).entries)
		if !strings.Contains(got, adminapi.EventAction) {
			t.Errorf("events of n1: %s, want its actions", got)
		}
	})
}

// TestForwardRefused checks members that cannot or must not act: each refuses with its reason, and
// nothing changes.
func TestForwardRefused(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		f := newForwarding(w)
		for body, want := range map[string]string{
			`{"member":"n2"}`: adminapi.CodeNoAnswer, // an earlier version
			`{"member":"n9"}`: adminapi.CodeNotActive,
		} {
			if code, _ := f.post(0, "/v1/drain", body); code != want {
				t.Errorf("drain %s: %s, want %s", body, code, want)
			}
		}
		w.others[1].local.Store(nil) // without --admin-write
		if code, _ := f.post(0, "/v1/drain", `{"member":"n1"}`); code != adminapi.CodeReadOnly {
			t.Errorf("drain of a read-only member: %s, want %s", code, adminapi.CodeReadOnly)
		}
		f = newForwarding(w)
		ctx, observer := t.Context(), member.Member{Name: "o"}
		observer.Address = member.ObserverAddress("o")
		stranger := member.Member{Name: "s"} // as a peer that is not in the view
		stranger.Address = member.Address{Host: "10.0.0.9", Port: 1}
		removed := w.nodes[0].Self()
		removed.Status = member.Removed
		for _, from := range []member.Member{observer, stranger, removed} {
			q := forwardQuestion{Action: actDrain, TimeoutMS: 1000, Caller: "forged"}
			a, err := w.others[1].answerForward(ctx, from, q)
			if err != nil || !strings.Contains(string(a.JSON), adminapi.CodeForbidden) {
				t.Errorf("%s: %s, %v, want %s", from, a.JSON, err, adminapi.CodeForbidden)
			}
		}
		if strings.Contains(f.log.String(), "forged") {
			t.Errorf("the log shows a caller that no member has checked:\n%s", &f.log)
		}
		for want, q := range map[string]forwardQuestion{
			adminapi.CodeTooLarge:   {Action: actDrain, Body: make([]byte, maxForwardBytes+1)},
			adminapi.CodeBadRequest: {Action: "leave\n\x1b[31m", Caller: strings.Repeat("x", 1<<20)},
		} {
			a, err := w.others[1].answerForward(ctx, w.nodes[0].Self(), q)
			if err != nil || !strings.Contains(string(a.JSON), want) || len(a.JSON) > maxForwardBytes {
				t.Errorf("%.20q: %s, %v, want %s", q.Action, a.JSON, err, want)
			}
		}
		for line := range strings.Lines(f.log.String()) {
			if len(line) > 4*maxAuditBytes || strings.Contains(line, "\x1b") {
				t.Errorf("a line of %d bytes: %.300q", len(line), line)
			}
		}
		for i := range w.nodes {
			w.net.Cut(trioAddress(1), trioAddress(i))
			w.net.Cut(trioAddress(i), trioAddress(1))
		}
		began := time.Now()
		code, _ := f.post(0, "/v1/prefer", `{"member":"n1","preference":3}`)
		if code != adminapi.CodeUnknownOutcome && code != adminapi.CodeNotActive {
			t.Errorf("prefer at an isolated member: %s", code)
		}
		if took := time.Since(began); took > adminapi.ActTimeout {
			t.Errorf("prefer at an isolated member took %v, want at most %v", took, adminapi.ActTimeout)
		}
		if w.nodes[1].Status().Drained {
			t.Error("n1 is drained")
		}
	})
}

// TestSendCannotForward checks that a caller of one member cannot send the request that forwards an
// action, whose caller another member would log.
func TestSendCannotForward(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		f := newForwarding(w)
		for _, to := range []string{"", `"to":"n1",`} {
			code, _ := f.post(0, "/v1/send", `{"name":"athena/act",`+to+`"payload":{"action":"drain",`+
				`"body":"{}","timeout":1000,"caller":"certificate CN=alice at 10.0.0.5:4711"}}`)
			if code != adminapi.CodeBadRequest {
				t.Errorf("send of athena/act with %q: %s, want %s", to, code, adminapi.CodeBadRequest)
			}
		}
		code, _ := f.post(0, "/v1/send", `{"name":"athena.election","payload":{}}`)
		if code != adminapi.CodeBadRequest {
			t.Errorf("send of athena.election: %s, want %s", code, adminapi.CodeBadRequest)
		}
		if w.nodes[1].Status().Drained || strings.Contains(f.log.String(), "alice") {
			t.Errorf("n1 has acted; its log:\n%s", &f.log)
		}
	})
}

// TestForwardHostileResponse checks that the response of a member is neither a success without a
// meaning nor a text that controls the terminal of the caller.
func TestForwardHostileResponse(t *testing.T) {
	var hostile forwardAnswer
	register := func(i int, mux *receiver.Mux) {
		if i == 2 {
			receiver.HandleRequest(mux, func(
				context.Context, member.Member, forwardQuestion,
			) (forwardAnswer, error) {
				return hostile, nil
			}, receiver.Named(eventname.AdminAct))
		}
	}
	inTrioThatHandles(t, register, func(t *testing.T, w *trio) {
		f := newForwarding(w)
		leader := `{"leader":{"address":"10.0.0.1:1","name":"` + `\u001b[31m` + `"}}`
		const long = `{"leader":null,"more":"` // cut
		for _, c := range []struct {
			status     int
			text, want string
		}{
			{http.StatusOK, leader, "ok"},
			{http.StatusOK, `{"leader":{"address":"x"}}`, adminapi.CodeUnknownOutcome},
			{http.StatusOK, long, adminapi.CodeUnknownOutcome},
			{http.StatusOK, long + strings.Repeat("x", maxForwardBytes) + `"}`,
				adminapi.CodeUnknownOutcome},
			{http.StatusContinue, `{}`, adminapi.CodeUnknownOutcome},
			{-1, `{}`, adminapi.CodeUnknownOutcome},
			{http.StatusConflict, `{"code":"\u001b"}`, `\x1b`},
		} {
			hostile = forwardAnswer{c.status, []byte(c.text)}
			code, name := f.post(0, "/v1/drain", `{"member":"n2"}`)
			if code != c.want || !member.IsPrintable(name) {
				t.Errorf("response %d %.40s: %q, leader %q, want %q", c.status, c.text, code, name, c.want)
			}
		}
	})
}
