// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

const (
	// maxHolds limits the number of callers that hold a lock, lead a job, or wait for one. Each uses a
	// connection. Half of the connections stay free for other requests.
	maxHolds = adminapi.MaxConnections / 2
	// minAliveInterval is the shortest interval of EventAlive.
	minAliveInterval = 50 * time.Millisecond
	// settleInterval delays EventWaiting after a lock is released. The next holder, which may be
	// this caller, acquires the lock within that time.
	settleInterval = 100 * time.Millisecond
)

// serveLock acquires a lock for a caller, and holds it while the connection lasts.
func (h *handler) serveLock(w http.ResponseWriter, r *http.Request) {
	var body adminapi.LockRequest
	name := r.PathValue("job")
	err := h.checkRequest(w, r, &body)
	var key string
	if err == nil {
		key, err = h.checkJobs(jobrecord.LockKey(name, body.Latch))
	}
	if err != nil {
		writeRefusal(w, err)
		return
	}
	h.serveHold(w, r, key, true, func(ctx context.Context, held heldFunc) error {
		l, done, err := h.contests.useLock(name + "/" + body.Latch)
		if err != nil {
			return err
		}
		defer done()
		return l.Do(ctx, held)
	})
}

// serveElect campaigns for a job for a caller while the connection lasts.
func (h *handler) serveElect(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("job")
	err := h.checkRequest(w, r, &adminapi.Empty{})
	var key string
	if err == nil {
		key, err = h.checkJobs(jobrecord.LeaderKey(name))
	}
	if err != nil {
		writeRefusal(w, err)
		return
	}
	h.serveHold(w, r, key, false, func(ctx context.Context, held heldFunc) error {
		j, err := election.OpenJob(ctx, h.contests.store, name, election.JobOptions{})
		if err != nil {
			return err
		}
		defer closeAll(j.Close)
		return j.WhileLeader(ctx, held)
	})
}

// jobEvents streams the leader of a job and each change of it.
func (h *handler) jobEvents(w http.ResponseWriter, r *http.Request) {
	key, err := h.checkJobs(jobrecord.LeaderKey(r.PathValue("job")))
	switch {
	case h.isForeign(r):
		err = crossSite()
	case err == nil && r.URL.RawQuery != "":
		err = &refusal{http.StatusBadRequest, adminapi.CodeBadQuery, r.URL.Path + " accepts no query"}
	}
	if err != nil {
		writeRefusal(w, err)
		return
	}
	h.streams.admitStream(w, r, func() {
		c := &contender{eventWriter: beginEvents(w), h: h, key: key}
		if r.Method != http.MethodHead {
			c.reportHolder(r.Context())
			c.writeEvents(r.Context(), h.contests.store.Watch(r.Context(), key), nil)
		}
	})
}

// heldFunc is a function that runs while a node holds a lock or leads a job.
type heldFunc = func(ctx context.Context, term leader.Term) error

// serveHold streams the events of a caller that holds a lock or leads a job. If once is true, the
// stream ends when the caller loses the lock or job. While the node holds the lock or leads the
// job, the function run calls held. It returns when ctx ends.
func (h *handler) serveHold(
	w http.ResponseWriter, r *http.Request, key string, once bool,
	run func(ctx context.Context, held heldFunc) error,
) {
	slots := h.contests.slots
	select {
	case slots <- struct{}{}:
	default:
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeBusy, fmt.Sprintf(
			"busy: %d callers hold or wait for locks and jobs, which is the maximum: try again", maxHolds))
		return
	}
	keepConnection(r)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &contender{
		eventWriter: beginEvents(w), h: h, key: key, once: once, gained: make(chan *grant),
	}
	changes := h.contests.store.Watch(ctx, key)
	c.reportHolder(ctx) // before the caller can become the holder
	ended := make(chan error, 1)
	go func() {
		defer func() { <-slots }() // after the release
		ended <- run(ctx, c.reportHeld)
	}()
	c.writeEvents(ctx, changes, ended)
}

// contender is a caller that holds or waits for a lock or job, or follows the leader of a job.
type contender struct {
	*eventWriter
	h      *handler
	key    string // key of the record
	once   bool   // the stream ends after the first grant
	sent   []byte // the last event about the holder, encoded
	gained chan *grant
}

// grant is one period in which the node holds the record for the caller.
type grant struct {
	ctx      context.Context // ends before there can be another holder
	token    member.Token
	reported chan struct{} // closed when the caller has received EventLost
}

// reportHeld reports a grant to the caller, and blocks until it has also reported the end of the
// grant.
func (c *contender) reportHeld(ctx context.Context, term leader.Term) error {
	g := &grant{ctx, term.Token(), make(chan struct{})}
	select {
	case c.gained <- g:
		<-g.reported
	case <-ctx.Done():
	}
	return nil
}

// writeEvents writes events until the caller disconnects or the node closes. With once, it also
// ends when the record is lost.
func (c *contender) writeEvents(ctx context.Context, changes <-chan struct{}, ended <-chan error) {
	var now *grant               // nil while the record is not held
	var settled <-chan time.Time // nil if there is no change to report
	defer func() { now.endGrant() }()
	tick := time.NewTimer(adminapi.KeepAliveInterval)
	defer tick.Stop()
	for c.err == nil {
		c.flushText()
		select {
		case now = <-c.gained:
			settled = nil
			c.writeEvent("", adminapi.EventHeld,
				adminapi.Encode(adminapi.Grant{Token: adminapi.RecordToken(now.token),
					TrustedMS: c.trustedSeconds()}))
			tick.Reset(c.nextInterval(now))
		case <-now.doneChan():
			c.reportLost(context.Cause(now.ctx))
			now.endGrant()
			if now = nil; c.once {
				return
			}
		case err := <-ended:
			c.reportLost(err)
			return
		case _, open := <-changes:
			switch {
			case !open && c.once:
				changes = nil // the reason is sent to ended
			case !open:
				return // the node has closed
			case !c.once:
				c.reportHolder(ctx)
			case now == nil && settled == nil:
				settled = time.After(settleInterval)
			}
		case <-settled:
			settled = nil
			c.reportHolder(ctx)
		case <-tick.C:
			if now == nil {
				c.writeComment()
			} else {
				c.writeEvent("", adminapi.EventAlive,
					adminapi.Encode(adminapi.Trust{TrustedMS: c.trustedSeconds()}))
			}
			tick.Reset(c.nextInterval(now)) // other events must not delay EventAlive
		case <-ctx.Done():
			return
		}
	}
}

// doneChan returns a channel that is closed when the grant ends, or nil if g is nil.
func (g *grant) doneChan() <-chan struct{} {
	if g == nil {
		return nil
	}
	return g.ctx.Done()
}

// endGrant lets reportHeld return after the caller has received EventLost or disconnected.
func (g *grant) endGrant() {
	if g != nil {
		close(g.reported)
	}
}

// nextInterval returns the time until the next EventAlive or comment: a third of the remaining
// lease, so that the caller can miss two of them.
func (c *contender) nextInterval(now *grant) time.Duration {
	if now == nil {
		return adminapi.KeepAliveInterval
	}
	return max(c.h.contests.remaining()/3, minAliveInterval)
}

func (c *contender) trustedSeconds() float64 {
	return adminapi.Milliseconds(c.h.contests.remaining())
}

func (c *contender) reportLost(err error) {
	c.writeEvent("", adminapi.EventLost,
		adminapi.Encode(adminapi.ErrorBody{Error: textOf(err), Code: codeOf(err)}))
}

// reportHolder reports the holder of the lock or the leader of the job if it has changed.
func (c *contender) reportHolder(ctx context.Context) {
	kind, text := adminapi.EventLeader, adminapi.Encode(adminapi.JobLeader{Leader: c.findHolder(ctx)})
	if c.once {
		kind, text = adminapi.EventWaiting, adminapi.Encode(adminapi.Waiting{Holder: c.findHolder(ctx)})
	}
	if !bytes.Equal(text, c.sent) {
		c.sent = text
		c.writeEvent("", kind, text)
	}
}

// findHolder returns the owner of the record, or nil if there is no owner or the record is revoked.
func (c *contender) findHolder(ctx context.Context) *adminapi.Holder {
	records, err := c.h.contests.store.List(ctx, c.key)
	if err != nil {
		return nil // the node has closed, and the stream ends
	}
	r, ok := jobrecord.Find(records, c.key)
	if !ok || r.Revoked {
		return nil
	}
	members := c.h.node.Status().View.Members
	holder := holderOf(members, leader.Holder{ID: string(r.Value), Token: r.Token})
	return &holder
}
