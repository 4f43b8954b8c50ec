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
	// maxHolds bounds the callers of a node that hold a latch or lead a job, or wait for
	// that. Each has a connection, of which probes of health need some too.
	maxHolds = adminapi.MaxConnections / 2
	// minAliveInterval is the shortest time between signs of life of what is held.
	minAliveInterval = 50 * time.Millisecond
	// settleInterval is how long a change of who holds a latch waits before it is told to
	// those that wait: meanwhile the next one takes it, perhaps for this very caller.
	settleInterval = 100 * time.Millisecond
)

// serveLock holds a lock for a caller, once no other caller or member does.
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

// serveElect contends for a job for a caller, again and again.
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

// jobEvents tells who leads a job, and each change of that.
func (h *handler) jobEvents(w http.ResponseWriter, r *http.Request) {
	key, err := h.checkJobs(jobrecord.LeaderKey(r.PathValue("job")))
	switch {
	case h.isForeign(r):
		err = crossSite()
	case err == nil && r.URL.RawQuery != "":
		err = &refusal{http.StatusBadRequest, adminapi.CodeBadQuery, r.URL.Path + " takes no query"}
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

// heldFunc runs while a node holds something.
type heldFunc = func(ctx context.Context, term leader.Term) error

// serveHold answers a caller that wants to hold something, once or again and again. run calls
// its function while the node does, and ends when the caller is gone.
func (h *handler) serveHold(
	w http.ResponseWriter, r *http.Request, key string, once bool,
	run func(ctx context.Context, held heldFunc) error,
) {
	slots := h.contests.slots
	select {
	case slots <- struct{}{}:
	default:
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeBusy, fmt.Sprintf(
			"%d callers hold something here or wait for it, and no more may: try again", maxHolds))
		return
	}
	keepConnection(r)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &contender{
		eventWriter: beginEvents(w), h: h, key: key, once: once, gained: make(chan *grant),
	}
	looks := h.contests.store.Watch(ctx, key)
	c.reportHolder(ctx) // before it can be this caller
	over := make(chan error, 1)
	go func() {
		defer func() { <-slots }() // when nothing is held any more
		over <- run(ctx, c.reportHeld)
	}()
	c.writeEvents(ctx, looks, over)
}

// contender is a caller that wants to hold something, or to know who does.
type contender struct {
	*eventWriter
	h      *handler
	key    string // of the record
	once   bool   // it wants it no more when it was lost
	said   []byte // who has the record, as it was told last
	gained chan *grant
}

// grant is one time in which the node holds something for the caller.
type grant struct {
	ctx   context.Context // ends before anybody else may hold it
	token member.Token
	told  chan struct{} // closed when the caller was told of the end
}

// reportHeld blocks while the node holds something.
func (c *contender) reportHeld(ctx context.Context, term leader.Term) error {
	g := &grant{ctx, term.Token(), make(chan struct{})}
	select {
	case c.gained <- g:
		<-g.told
	case <-ctx.Done():
	}
	return nil
}

// writeEvents writes what happens until the caller is gone, or nothing more can.
func (c *contender) writeEvents(ctx context.Context, looks <-chan struct{}, over <-chan error) {
	var now *grant               // nil while nothing is held
	var settled <-chan time.Time // nil while nothing has changed
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
		case err := <-over:
			c.reportLost(err)
			return
		case _, open := <-looks:
			switch {
			case !open && c.once:
				looks = nil // over says why
			case !open:
				return // with the node
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
			tick.Reset(c.nextInterval(now)) // here alone: changes of other records put no sign off
		case <-ctx.Done():
			return
		}
	}
}

// doneChan is closed when the grant is; never without one.
func (g *grant) doneChan() <-chan struct{} {
	if g == nil {
		return nil
	}
	return g.ctx.Done()
}

// endGrant says that the caller was told of the end, or is gone.
func (g *grant) endGrant() {
	if g != nil {
		close(g.told)
	}
}

// nextInterval is when the caller hears something at the latest.
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

// reportHolder reports who holds the lock or leads the job, if that has changed.
func (c *contender) reportHolder(ctx context.Context) {
	kind, text := adminapi.EventLeader, adminapi.Encode(adminapi.JobLeader{Leader: c.findHolder(ctx)})
	if c.once {
		kind, text = adminapi.EventWaiting, adminapi.Encode(adminapi.Waiting{Holder: c.findHolder(ctx)})
	}
	if !bytes.Equal(text, c.said) {
		c.said = text
		c.writeEvent("", kind, text)
	}
}

// findHolder returns the owner of the record; nil if there is none, or it was revoked.
func (c *contender) findHolder(ctx context.Context) *adminapi.Holder {
	records, err := c.h.contests.store.List(ctx, c.key)
	if err != nil {
		return nil // the node has ended, as the caller soon learns
	}
	r, ok := member.Records(records).Find(c.key)
	if !ok || r.Revoked {
		return nil
	}
	members := c.h.node.Status().View.Members
	holder := holderOf(members, leader.Holder{ID: string(r.Value), Token: r.Token})
	return &holder
}
