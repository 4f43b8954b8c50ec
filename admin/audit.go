// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/safetext"
)

const (
	// maxRefusedLines limits how many refused write requests Serve logs in a minute, since callers
	// without the token can send them.
	maxRefusedLines = 64
	// maxAuditBytes limits each text of a log line that a caller chose.
	maxAuditBytes = 256
)

// WithLog makes Serve log each write request with its outcome and its caller. It logs at most 64
// refused ones in a minute.
func WithLog(log *slog.Logger) AccessOption { return func(a *access) { a.log = log } }

// auditor logs write requests.
type auditor struct {
	log *slog.Logger // nil for none

	mu      sync.Mutex
	since   time.Time // start of the current minute
	refused int       // refused requests in it
}

// admitRefused counts a refused request. It reports whether to log it, and how many were not logged
// in the minute before.
func (a *auditor) admitRefused(now time.Time) (logged bool, leftOut int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) >= time.Minute {
		leftOut = max(0, a.refused-maxRefusedLines)
		a.since, a.refused = now, 0
	}
	a.refused++
	return a.refused <= maxRefusedLines, leftOut
}

// logAction logs a write request.
func (a *auditor) logAction(ctx context.Context, e adminapi.Action, requestID, userAgent string) {
	leftOut := 0
	if e.IsRefused() {
		var logged bool
		if logged, leftOut = a.admitRefused(e.Time); !logged {
			return
		}
	}
	if a.log == nil {
		return
	}
	fields := []slog.Attr{
		slog.String("action", safetext.OneLine(e.Action, maxAuditBytes)),
		slog.String("request", safetext.OneLine(e.Request, maxAuditBytes)),
		slog.String("outcome", e.Outcome),
		slog.String("by", safetext.OneLine(e.Caller, maxAuditBytes)),
		slog.String("remote", e.Remote),
		slog.String("request_id", safetext.OneLine(requestID, maxAuditBytes)),
		slog.String("user_agent", safetext.OneLine(userAgent, maxAuditBytes)),
	}
	if leftOut > 0 {
		fields = append(fields, slog.Int("left_out", leftOut))
	}
	a.log.LogAttrs(ctx, slog.LevelInfo, "admin action", fields...)
}

type actionKey struct{}

// action is a write request in progress. It is the ResponseWriter of the request, from which it
// learns the outcome.
type action struct {
	http.ResponseWriter
	auditor *auditor
	r       *http.Request
	entry   adminapi.Action
	publish func(adminapi.Action) // nil if readers of events do not get the action
	status  int                   // 0 until the response begins
}

// auditActions logs each write request when its response begins.
func (a access) auditActions(next http.Handler) http.Handler {
	audit := &auditor{log: a.log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		act := &action{ResponseWriter: w, auditor: audit, r: r}
		path := cmp.Or(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
		act.entry.Action = safetext.OneLine(path, maxAuditBytes)
		act.entry.Remote = safetext.OneLine(r.RemoteAddr, maxAuditBytes)
		if c, ok := r.Context().Value(connectionKey{}).(*counted); ok {
			act.addCaller(localCaller(c.Conn))
		}
		defer act.finish(adminapi.CodeFailed)
		next.ServeHTTP(act, r.WithContext(context.WithValue(r.Context(), actionKey{}, act)))
	})
}

// actionOf returns the action of a request, or nil if Serve does not serve it.
func actionOf(ctx context.Context) *action {
	a, _ := ctx.Value(actionKey{}).(*action)
	return a
}

// addCaller adds a name or a credential of the caller. a may be nil.
func (a *action) addCaller(text string) {
	if a == nil || text == "" {
		return
	}
	if a.entry.Caller != "" {
		text = a.entry.Caller + ", " + text
	}
	a.entry.Caller = safetext.OneLine(text, maxAuditBytes)
}

// noteBody adds the body of the request, without the payload of an event. a may be nil.
func (a *action) noteBody(body any) {
	if a == nil {
		return
	}
	if sent, ok := body.(*adminapi.SendRequest); ok {
		body = adminapi.SendRequest{Name: sent.Name, To: sent.To}
	}
	if text, err := json.Marshal(body); err == nil {
		a.entry.Request = safetext.OneLine(string(text), maxAuditBytes)
	}
}

// finish records the outcome, once.
func (a *action) finish(outcome string) {
	if a.entry.Outcome != "" {
		return
	}
	a.entry.Time, a.entry.Outcome = time.Now(), outcome
	h := a.r.Header
	a.auditor.logAction(a.r.Context(), a.entry, h.Get("X-Request-ID"), h.Get("User-Agent"))
	if a.publish != nil && !a.entry.IsRefused() {
		a.publish(a.entry)
	}
}

// Unwrap returns the inner ResponseWriter for http.ResponseController.
func (a *action) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *action) WriteHeader(status int) {
	if a.status == 0 {
		if a.status = status; status < http.StatusBadRequest {
			a.finish(adminapi.OutcomeOK)
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. The body of an error contains its code.
func (a *action) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.entry.Outcome == "" {
		var e adminapi.ErrorBody
		_ = json.Unmarshal(b, &e) // e is empty if the body is not an ErrorBody
		a.finish(cmp.Or(safetext.OneLine(e.Code, maxAuditBytes), strconv.Itoa(a.status)))
	}
	return a.ResponseWriter.Write(b)
}

// publishAction sends an action to the readers of events.
func (h *handler) publishAction(e adminapi.Action) {
	h.streams.feed.add(adminapi.EventAction, adminapi.Encode(e))
}

// announceAction returns a handler whose action the readers of events get.
func (h *handler) announceAction(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a := actionOf(r.Context()); a != nil {
			a.publish = h.publishAction
		}
		next(w, r)
	}
}

// nameCaller adds the credentials of an accepted request to its action.
func (a access) nameCaller(r *http.Request) {
	act := actionOf(r.Context())
	if a.needsCertificate {
		act.addCaller(certificateName(r.TLS.PeerCertificates[0]))
	}
	if a.token != nil {
		act.addCaller("token")
	}
}

// certificateName returns the SPIFFE ID of a certificate, or else its subject, or else its first
// alternative name. The certificates of a SPIFFE authority may all have the same subject.
func certificateName(c *x509.Certificate) string {
	names := append([]string{c.Subject.String()}, c.DNSNames...)
	for _, uri := range c.URIs {
		if uri.Scheme == "spiffe" {
			return "certificate " + uri.String()
		}
		names = append(names, uri.String())
	}
	return "certificate " + cmp.Or(append(names, c.EmailAddresses...)...)
}
