// SPDX-License-Identifier: Apache-2.0

package adminclient

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
)

// maxTrusted limits how long a client relies on one EventAlive. No lease lasts longer.
const maxTrusted = 24 * time.Hour

// Reasons why a client no longer holds a lock or a job.
var (
	ErrUntrusted = errors.New("not confirmed in time: the node is hung, or there is no leader with " +
		"authority (see athena status)")
	ErrEnded = errors.New("the node or its admin API has stopped")
)

// Jobs returns all jobs, with the callers that hold them.
func (c *Client) Jobs(ctx context.Context) ([]adminapi.Job, error) {
	return getJSON[[]adminapi.Job](ctx, c, "/v1/jobs?callers")
}

// JobChanges is like Jobs, with the last changes, also of jobs that no member holds.
func (c *Client) JobChanges(ctx context.Context) ([]adminapi.Job, error) {
	return getJSON[[]adminapi.Job](ctx, c, "/v1/jobs?callers&changes")
}

// Enable allows a member, or the members of a host, to lead a job again.
func (c *Client) Enable(ctx context.Context, job string, r adminapi.CandidateRequest) error {
	_, err := postJSON[adminapi.Done](ctx, c, jobPath(job, "enable"), r)
	return err
}

// Disable keeps a member, or the members of a host, from leading a job. If one of them leads the
// job, its leadership ends.
func (c *Client) Disable(ctx context.Context, job string, r adminapi.CandidateRequest) error {
	_, err := postJSON[adminapi.Done](ctx, c, jobPath(job, "disable"), r)
	return err
}

// JobLeader yields the leader of a job in the node's view, nil if there is none, and then each
// change, until ctx ends. If an error occurs, it is the last element. The end of ctx is not an
// error.
func (c *Client) JobLeader(ctx context.Context, job string) iter.Seq2[*adminapi.Holder, error] {
	return func(yield func(*adminapi.Holder, error) bool) {
		err := c.openStream(ctx, http.MethodGet, jobPath(job, "events"), nil, func(r rawEvent) error {
			var l adminapi.JobLeader
			switch {
			case r.kind != adminapi.EventLeader:
			case json.Unmarshal(r.data, &l) != nil:
				return errForeign
			case !yield(l.Leader, nil):
				return errStop
			}
			return nil
		})
		if err == nil {
			err = c.brokeOff(ErrEnded)
		}
		if !errors.Is(err, errStop) && ctx.Err() == nil {
			yield(nil, err)
		}
	}
}

// Lock acquires a lock or permit of a job through the node, runs fn while holding the lock, and
// releases the lock when fn has returned. While waiting, it calls onWait with the current holder
// and why there is no leader, and again after each change. onWait must not block.
//
// The context of fn ends when ctx ends or the lock is lost. The lock is lost if the node reports
// it, the connection breaks, or the time granted by the last EventAlive passes. The reason is the
// cause of the context. Lock returns the error of fn. If the lock was lost or not acquired, Lock
// returns the reason instead: the cause of ctx, an *Error of the node, or an error of the
// connection.
//
// The time granted by an EventAlive counts from its arrival. A network delay therefore extends the
// context of fn beyond the lease: run this client on the host of the node, and use fencing tokens.
func (c *Client) Lock(
	ctx context.Context, job string, r adminapi.LockRequest, onWait func(adminapi.Waiting),
	fn func(ctx context.Context, token adminapi.RecordToken) error,
) error {
	s := holdSession{client: c, once: true, onWait: onWait, fn: fn}
	return s.runUntilDone(ctx, jobPath(job, "lock"), r)
}

// Elect campaigns for a job through the node, and runs fn whenever the node leads the job for this
// client. It returns when ctx ends, when fn returns although the job was not lost, or when the node
// stops. It calls onHolder with the current leader or nil, and again after each change. See Lock
// for the context of fn.
//
// If no EventAlive arrives in time, the leadership is lost. Elect returns if the node does not
// respond for another ClientTimeout, and campaigns again otherwise.
func (c *Client) Elect(
	ctx context.Context, job string, onHolder func(*adminapi.Holder),
	fn func(ctx context.Context, token adminapi.RecordToken) error,
) error {
	s := holdSession{client: c, fn: fn, onWait: func(w adminapi.Waiting) { onHolder(w.Holder) }}
	return s.runUntilDone(ctx, jobPath(job, "elect"), adminapi.Empty{})
}

// Group is like Elect for a group of package election. The node is a member of the group while
// Group runs.
func (c *Client) Group(
	ctx context.Context, group string, r adminapi.GroupRequest, onHolder func(*adminapi.Holder),
	fn func(ctx context.Context, token adminapi.RecordToken) error,
) error {
	s := holdSession{client: c, fn: fn, onWait: func(w adminapi.Waiting) { onHolder(w.Holder) }}
	return s.runUntilDone(ctx, groupPath(group, "elect"), r)
}

// FailGroup reports that the work of the leader of a group has failed. The leadership ends for the
// caller of Group. It begins again after a pause, or another member leads if RetryForMS has passed.
func (c *Client) FailGroup(ctx context.Context, group string) error {
	_, err := postJSON[adminapi.Done](ctx, c, groupPath(group, "fail"), adminapi.Empty{})
	return err
}

func groupPath(group, what string) string {
	return "/v1/groups/" + url.PathEscape(group) + "/" + what
}

func jobPath(job, what string) string { return "/v1/jobs/" + url.PathEscape(job) + "/" + what }

// holdSession is one call of Lock, Elect or Group.
type holdSession struct {
	client *Client
	once   bool // true for Lock: the session ends when the lock is lost
	onWait func(adminapi.Waiting)
	fn     func(context.Context, adminapi.RecordToken) error

	connect    func() // opens a new connection to replace the current one
	disconnect context.CancelFunc
	events     chan holdEvent // events of the current connection

	token   adminapi.RecordToken
	until   time.Time   // when the last confirmation expires; zero if nothing is held
	expiry  *time.Timer // fires at until
	expired bool        // the time until has passed, but the node has not reported the loss

	cancelFn context.CancelCauseFunc // cancels the context of fn; nil while fn is not running
	lost     error                   // why the context of fn was canceled; nil otherwise
	returned chan error              // the error of fn
	final    error                   // why the session ends; nil while it continues
}

// holdEvent is a decoded event of the node.
type holdEvent struct {
	at    time.Time // time of arrival
	kind  string
	wait  adminapi.Waiting // set for EventWaiting; for EventLeader, only Holder is set
	grant adminapi.Grant   // set for EventHeld; for EventAlive, only TrustedMS is set
	err   error            // set for EventLost, and for the end of the stream, whose kind is empty
}

func (s *holdSession) runUntilDone(ctx context.Context, path string, body any) error {
	s.disconnect = func() {}
	s.connect = func() {
		s.disconnect()
		var reading context.Context
		// The connection must outlive ctx while fn runs, since closing it releases the record.
		reading, s.disconnect = context.WithCancel(context.WithoutCancel(ctx))
		s.events = make(chan holdEvent)
		go s.readHoldEvents(reading, path, adminapi.Encode(body), s.events)
	}
	s.connect()
	defer func() { s.disconnect() }()
	s.expiry = time.NewTimer(maxTrusted)
	s.expiry.Stop() // started by extendTrust
	defer s.expiry.Stop()
	s.returned = make(chan error, 1)
	gone := ctx.Done()
	for {
		if s.final != nil && s.cancelFn == nil {
			return s.final
		}
		select {
		case e := <-s.events:
			s.handleEvent(ctx, e)
		case <-s.expiry.C:
			if s.once || s.expired {
				s.endSession(s.client.brokeOff(ErrUntrusted))
			}
			s.expire()
		case err := <-s.returned:
			s.cancelFn(nil)
			s.cancelFn = nil
			switch {
			case s.lost == nil:
				return err
			case s.final == nil && ctx.Err() != nil:
				return context.Cause(ctx)
			case s.final == nil && time.Now().Before(s.until): // the node leads again
				s.beginWork(ctx)
			}
		case <-gone:
			if s.cancelFn == nil {
				return context.Cause(ctx)
			}
			gone = nil // the context of fn is done too, so fn returns
		}
	}
}

// readHoldEvents reads the events of the node until the stream ends.
func (s *holdSession) readHoldEvents(
	ctx context.Context, path string, body []byte, events chan<- holdEvent,
) {
	send := func(e holdEvent) error {
		e.at = time.Now()
		select {
		case events <- e:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := s.client.openStream(ctx, http.MethodPost, path, body, func(r rawEvent) error {
		e, err := decodeHoldEvent(r)
		if err != nil {
			return errForeign
		}
		return send(e)
	})
	if err == nil {
		err = s.client.brokeOff(ErrEnded)
	}
	_ = send(holdEvent{err: err})
}

// decodeHoldEvent decodes an event.
func decodeHoldEvent(r rawEvent) (e holdEvent, err error) {
	e.kind = r.kind
	switch r.kind {
	case adminapi.EventWaiting:
		err = json.Unmarshal(r.data, &e.wait)
	case adminapi.EventLeader:
		var l adminapi.JobLeader
		err = json.Unmarshal(r.data, &l)
		e.wait.Holder = l.Leader
	case adminapi.EventHeld, adminapi.EventAlive:
		err = json.Unmarshal(r.data, &e.grant)
	case adminapi.EventLost:
		e.err = responseError(http.StatusOK, r.data)
	}
	return e, err
}

func (s *holdSession) handleEvent(ctx context.Context, e holdEvent) {
	held := !s.until.IsZero()
	switch e.kind {
	case adminapi.EventWaiting, adminapi.EventLeader:
		s.onWait(e.wait)
	case adminapi.EventHeld:
		s.token, s.expired = e.grant.Token, false
		s.extendTrust(e)
		if s.cancelFn == nil && time.Now().Before(s.until) { // otherwise the grant expired in transit
			s.beginWork(ctx)
		}
	case adminapi.EventAlive:
		switch {
		case s.expired, held && e.at.After(s.until):
			// The event is too late: fn may have been canceled already. Release the record, and acquire it
			// again if the session continues.
			s.expire()
			if s.once {
				s.endSession(s.client.brokeOff(ErrUntrusted))
			} else {
				s.reconnect()
			}
		case held:
			s.extendTrust(e)
		}
	case adminapi.EventLost, "":
		s.endWork(e.err)
		if s.once || !held && !s.expired || e.kind == "" || isClosed(e.err) {
			s.endSession(e.err)
		}
		s.expired = false
	}
}

// isClosed reports whether err means that the node leaves. Then the session must end with its work:
// the node waits until it disconnects.
func isClosed(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Code == adminapi.CodeClosed
}

// extendTrust moves the expiry to TrustedMS after the arrival of an event.
func (s *holdSession) extendTrust(e holdEvent) {
	trusted := min(e.grant.TrustedMS, adminapi.Milliseconds(maxTrusted))
	s.until = e.at.Add(time.Duration(trusted * float64(time.Millisecond)))
	s.expiry.Reset(time.Until(s.until))
}

// beginWork starts fn.
func (s *holdSession) beginWork(ctx context.Context) {
	ctx, s.cancelFn = context.WithCancelCause(ctx)
	s.lost = nil
	token := s.token
	go func() { s.returned <- s.fn(ctx, token) }()
}

// endWork cancels the context of fn if fn is running.
func (s *holdSession) endWork(why error) {
	s.until = time.Time{}
	s.expiry.Stop()
	if s.cancelFn != nil && s.lost == nil {
		s.lost = why
		s.cancelFn(why)
	}
}

// expire cancels the context of fn because no EventAlive arrived in time. It then waits for another
// ClientTimeout for the node to report the loss.
func (s *holdSession) expire() {
	s.endWork(s.client.brokeOff(ErrUntrusted))
	s.expired = true
	s.expiry.Reset(ClientTimeout)
}

// reconnect releases the record by closing the connection, and campaigns again.
func (s *holdSession) reconnect() {
	s.expired = false
	s.expiry.Stop()
	s.connect()
}

// endSession records the first reason why the session ends.
func (s *holdSession) endSession(why error) {
	if s.final == nil {
		s.final = why
	}
}
