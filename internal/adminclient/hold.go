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

// maxTrusted bounds how long a client trusts one sign of life of a node: no lease is longer.
const maxTrusted = 24 * time.Hour

// Reasons why a client no longer holds something.
var (
	ErrUntrusted = errors.New("no sign of life of what is held: the node hangs, or there is no " +
		"leader with authority (athena status)")
	ErrEnded = errors.New("the node has ended, or its admin API")
)

// Jobs asks for all jobs.
func (c *Client) Jobs(ctx context.Context) ([]adminapi.Job, error) {
	return getJSON[[]adminapi.Job](ctx, c, "/v1/jobs")
}

// Enable lets a member, by its address or name, lead a job from now on.
func (c *Client) Enable(ctx context.Context, job, member string) error {
	_, err := postJSON[adminapi.Done](ctx, c, jobPath(job, "enable"),
		adminapi.CandidateRequest{Member: member})
	return err
}

// Disable keeps a member from leading a job. If it leads, its leadership ends.
func (c *Client) Disable(ctx context.Context, job, member string) error {
	_, err := postJSON[adminapi.Done](ctx, c, jobPath(job, "disable"),
		adminapi.CandidateRequest{Member: member})
	return err
}

// JobLeader yields who leads a job as far as the node knows, nil for nobody, and each
// change of that, until ctx ends. An error is the last that it yields. The end of ctx
// is not an error.
func (c *Client) JobLeader(ctx context.Context, job string) iter.Seq2[*adminapi.Holder, error] {
	return func(yield func(*adminapi.Holder, error) bool) {
		err := c.openStream(ctx, http.MethodGet, jobPath(job, "events"), nil, func(r received) error {
			var l adminapi.JobLeader
			switch {
			case r.kind != adminapi.EventLeader:
			case json.Unmarshal(r.data, &l) != nil:
				return errForeign
			case !yield(l.Leader, nil):
				return errEnough
			}
			return nil
		})
		if err == nil {
			err = c.brokeOff(ErrEnded)
		}
		if !errors.Is(err, errEnough) && ctx.Err() == nil {
			yield(nil, err)
		}
	}
}

// Lock runs fn while the node holds a latch of a job for this client, and blocks until it
// could and fn has returned. seen is told who has the latch until then, nil for nobody, and
// each change; it must not block.
//
// The context of fn ends with ctx, or when the latch is lost: as the node says, when the
// connection to it ends, or when no sign of life has come for as long as the node
// trusted that it holds it. Its cause is why. The latch is released when fn has returned.
// Lock returns what fn does, and where the latch was lost, or could not be had, why: the
// cause of ctx, an *Error of the node, or what became of the connection.
//
// A sign of life counts from when it comes here. Where a network holds it up, so much
// later the context ends: run this beside the node, and let tokens decide.
func (c *Client) Lock(
	ctx context.Context, job, latch string, seen func(*adminapi.Holder),
	fn func(ctx context.Context, token adminapi.RecordToken) error,
) error {
	p := pursuit{client: c, once: true, seen: seen, fn: fn}
	return p.runUntilDone(ctx, jobPath(job, "lock"), adminapi.LockRequest{Latch: latch})
}

// Elect contends for a job through the node, and runs fn whenever it leads for this
// client, one call after the other, until ctx ends, fn returns by itself, or the node is
// gone. seen is told who leads the job, nil for nobody, and each change; it must not
// block. For the rest see Lock; fn that returns since leadership was lost runs again. If no
// sign of life comes in time, leadership is lost; when the node is heard again, Elect
// contends on, and it ends if nothing is heard for five seconds.
func (c *Client) Elect(
	ctx context.Context, job string, seen func(*adminapi.Holder),
	fn func(ctx context.Context, token adminapi.RecordToken) error,
) error {
	p := pursuit{client: c, seen: seen, fn: fn}
	return p.runUntilDone(ctx, jobPath(job, "elect"), adminapi.Empty{})
}

func jobPath(job, what string) string { return "/v1/jobs/" + url.PathEscape(job) + "/" + what }

// pursuit is one call of Lock or Elect.
type pursuit struct {
	client *Client
	once   bool // and never again when it was lost
	seen   func(*adminapi.Holder)
	fn     func(context.Context, adminapi.RecordToken) error

	ask    func()             // the node, on a new connection; ends the one before
	hangUp context.CancelFunc // ends the connection
	told   chan news          // of the connection

	token  adminapi.RecordToken
	until  time.Time   // when trust in what is held ends; zero while nothing is
	expiry *time.Timer // fires at until
	lapsed bool        // that has come to pass, and the node has not said why

	end      context.CancelCauseFunc // of the context of fn; nil while it does not run
	lost     error                   // why that was ended; nil where it was not
	returned chan error              // what fn did
	over     error                   // why nothing more can be held; nil while it can
}

// news is an event of the node, with the time at which it came.
type news struct {
	at     time.Time
	kind   string
	holder *adminapi.Holder // of EventWaiting and EventLeader
	grant  adminapi.Grant   // of EventHeld, and in part of EventAlive
	err    error            // of EventLost, and of the end of the stream, which has no kind
}

func (p *pursuit) runUntilDone(ctx context.Context, path string, body any) error {
	p.hangUp = func() {}
	p.ask = func() {
		p.hangUp()
		var reading context.Context
		// While fn runs, the connection must outlive ctx: what is held goes with it.
		reading, p.hangUp = context.WithCancel(context.WithoutCancel(ctx))
		p.told = make(chan news)
		go p.readNews(reading, path, adminapi.Encode(body), p.told)
	}
	p.ask()
	defer func() { p.hangUp() }()
	p.expiry = time.NewTimer(maxTrusted)
	p.expiry.Stop() // until something is held
	defer p.expiry.Stop()
	p.returned = make(chan error, 1)
	gone := ctx.Done()
	for {
		if p.over != nil && p.end == nil {
			return p.over
		}
		select {
		case n := <-p.told:
			p.handleNews(ctx, n)
		case <-p.expiry.C:
			if p.once || p.lapsed {
				p.noteEnd(p.client.brokeOff(ErrUntrusted))
			}
			p.endByLapse()
		case err := <-p.returned:
			p.end(nil)
			p.end = nil
			switch {
			case p.lost == nil:
				return err
			case p.over == nil && ctx.Err() != nil:
				return context.Cause(ctx)
			case p.over == nil && time.Now().Before(p.until): // it leads again meanwhile
				p.beginWork(ctx)
			}
		case <-gone:
			if p.end == nil {
				return context.Cause(ctx)
			}
			gone = nil // fn learns of it, and returns
		}
	}
}

// readNews reads the events of the node until the stream ends.
func (p *pursuit) readNews(ctx context.Context, path string, body []byte, told chan<- news) {
	tell := func(n news) error {
		n.at = time.Now()
		select {
		case told <- n:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := p.client.openStream(ctx, http.MethodPost, path, body, func(r received) error {
		n, err := newsOf(r)
		if err != nil {
			return errForeign
		}
		return tell(n)
	})
	if err == nil {
		err = p.client.brokeOff(ErrEnded)
	}
	_ = tell(news{err: err})
}

// newsOf decodes an event.
func newsOf(r received) (n news, err error) {
	n.kind = r.kind
	switch r.kind {
	case adminapi.EventWaiting:
		var w adminapi.Waiting
		err = json.Unmarshal(r.data, &w)
		n.holder = w.Holder
	case adminapi.EventLeader:
		var l adminapi.JobLeader
		err = json.Unmarshal(r.data, &l)
		n.holder = l.Leader
	case adminapi.EventHeld, adminapi.EventAlive:
		err = json.Unmarshal(r.data, &n.grant)
	case adminapi.EventLost:
		n.err = answeredError(http.StatusOK, r.data)
	}
	return n, err
}

// handleNews handles an event.
func (p *pursuit) handleNews(ctx context.Context, n news) {
	held := !p.until.IsZero()
	switch n.kind {
	case adminapi.EventWaiting, adminapi.EventLeader:
		p.seen(n.holder)
	case adminapi.EventHeld:
		p.token, p.lapsed = n.grant.Token, false
		p.extendTrust(n)
		if p.end == nil && time.Now().Before(p.until) { // else it has lapsed on the way
			p.beginWork(ctx)
		}
	case adminapi.EventAlive:
		switch {
		case p.lapsed, held && n.at.After(p.until):
			// A network, or this process, stood still, or the sign was on its way when the
			// trust ran out. What has lapsed stays so, and the node must give it back.
			p.endByLapse()
			if p.once {
				p.noteEnd(p.client.brokeOff(ErrUntrusted))
			} else {
				p.startOver()
			}
		case held:
			p.extendTrust(n)
		}
	case adminapi.EventLost, "":
		p.endWork(n.err)
		if p.once || !held && !p.lapsed || n.kind == "" {
			p.noteEnd(n.err)
		}
		p.lapsed = false
	}
}

// extendTrust extends the time for which the client relies on what it holds.
func (p *pursuit) extendTrust(n news) {
	trusted := min(n.grant.TrustedMS, adminapi.Milliseconds(maxTrusted))
	p.until = n.at.Add(time.Duration(trusted * float64(time.Millisecond)))
	p.expiry.Reset(time.Until(p.until))
}

// beginWork runs fn.
func (p *pursuit) beginWork(ctx context.Context) {
	ctx, p.end = context.WithCancelCause(ctx)
	p.lost = nil
	token := p.token
	go func() { p.returned <- p.fn(ctx, token) }()
}

// endWork ends the context of fn, if fn runs.
func (p *pursuit) endWork(why error) {
	p.until = time.Time{}
	p.expiry.Stop()
	if p.end != nil && p.lost == nil {
		p.lost = why
		p.end(why)
	}
}

// endByLapse ends the context of fn because no sign of life came in time. The node may have lost
// the record too, and be about to report that.
func (p *pursuit) endByLapse() {
	p.endWork(p.client.brokeOff(ErrUntrusted))
	p.lapsed = true
	p.expiry.Reset(ClientTimeout)
}

// startOver releases what the node still holds, and contends again.
func (p *pursuit) startOver() {
	p.lapsed = false
	p.expiry.Stop()
	p.ask()
}

// noteEnd records why nothing more can be held.
func (p *pursuit) noteEnd(why error) {
	if p.over == nil {
		p.over = why
	}
}
