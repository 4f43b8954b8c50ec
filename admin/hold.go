// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

const (
	// maxHolds limits the number of callers that take part in a contest. Each uses a connection. Half
	// of the connections stay free for other requests.
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
	var key, caller string
	if err == nil {
		key, err = h.checkJobs(holding.LockKey(name, body.Latch))
	}
	if err == nil {
		caller, err = callerOf(r)
	}
	if err != nil {
		writeRefusal(w, err)
		return
	}
	permits := cmp.Or(body.Permits, 1)
	h.serveHold(w, r, func() (contest, error) {
		sem, done, err := h.contests.useSemaphore(semaphoreName{name + "/" + body.Latch, permits})
		if err != nil {
			return contest{}, &refusal{http.StatusBadRequest, adminapi.CodeBadRequest, textOf(err)}
		}
		c := h.recordContest(true, holding.PermitKeys(key, permits)...)
		c.lock = name + "/" + body.Latch
		c.caller = adminapi.Caller{Job: name, Latch: body.Latch, Caller: caller}
		c.run = func(ctx context.Context, held heldFunc) error {
			defer done()
			return sem.Do(ctx, held)
		}
		return c, nil
	})
}

// serveElect campaigns for a job for a caller while the connection lasts.
func (h *handler) serveElect(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("job")
	err := h.checkRequest(w, r, &adminapi.Empty{})
	var key, caller string
	if err == nil {
		key, err = h.checkJobs(holding.LeaderKey(name))
	}
	if err == nil {
		caller, err = callerOf(r)
	}
	if err != nil {
		writeRefusal(w, err)
		return
	}
	c := h.recordContest(false, key)
	c.job = name
	c.caller = adminapi.Caller{Job: name, Caller: caller}
	c.run = func(ctx context.Context, held heldFunc) error {
		j, err := election.OpenJob(ctx, h.contests.store, name, election.JobOptions{})
		if err != nil {
			return err
		}
		defer closeAll(j.Close)
		return j.WhileLeader(ctx, held)
	}
	h.serveHold(w, r, func() (contest, error) { return c, nil })
}

// jobEvents streams the leader of a job and each change of it.
func (h *handler) jobEvents(w http.ResponseWriter, r *http.Request) {
	key, err := h.checkJobs(holding.LeaderKey(r.PathValue("job")))
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
	h.streams.admitStream(w, r, func(ctx context.Context) {
		c := &contender{eventWriter: beginEvents(w), contest: h.recordContest(false, key)}
		if r.Method != http.MethodHead {
			c.reportHolder(ctx)
			c.writeEvents(ctx, c.watch(ctx), nil)
		}
	})
}

// heldFunc is a function that runs while a node holds a lock or leads a job.
type heldFunc = func(ctx context.Context, term leader.Term) error

// contest is a lock, job or group in which callers take part.
type contest struct {
	once      bool   // the stream ends when the caller loses what it held
	job, lock string // name in metrics, in one of the two; both are empty for a group
	// caller describes the caller in granted, which is called with it when the caller holds. granted
	// is nil for a group.
	caller  adminapi.Caller
	granted func(adminapi.Caller)
	// holder returns the member that holds the lock or leads. It returns nil if no member does, or if
	// a permit is free.
	holder func(context.Context) *adminapi.Holder
	why    func() string // why the node sees no leader, or ""; nil for a group
	// watch returns a channel that receives a value after each change of the holder.
	watch func(context.Context) <-chan struct{}
	// trusted returns how long a caller may rely on what it holds in the term.
	trusted func(leader.Term) time.Duration
	failed  <-chan struct{} // receives a value when the work of the caller has failed; may be nil
	// run takes part until ctx ends, and calls held while the node holds the lock or leads.
	run func(ctx context.Context, held heldFunc) error
}

// recordContest returns the contest for a lock, a job or the permits of a semaphore, which are the
// records under the keys. The caller must set its field run.
func (h *handler) recordContest(once bool, keys ...string) contest {
	prefix := keys[0]
	if len(keys) > 1 {
		prefix = strings.TrimSuffix(prefix, "0")
	}
	return contest{
		once:    once,
		granted: h.contests.log.addCaller,
		why:     func() string { return h.node.Status().NoLeader },
		holder:  func(ctx context.Context) *adminapi.Holder { return h.recordHolder(ctx, prefix, keys) },
		watch:   func(ctx context.Context) <-chan struct{} { return h.contests.store.Watch(ctx, prefix) },
		trusted: func(leader.Term) time.Duration { return h.contests.remaining() },
	}
}

// serveHold streams the events of a caller that takes part in the contest that prepare returns.
func (h *handler) serveHold(
	w http.ResponseWriter, r *http.Request, prepare func() (contest, error),
) {
	select {
	case h.holds <- struct{}{}:
	default:
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeBusy, fmt.Sprintf(
			"busy: %d callers hold or wait for locks, jobs and groups, which is the maximum: try again",
			maxHolds))
		return
	}
	contest, err := prepare()
	if err != nil {
		<-h.holds
		writeRefusal(w, err)
		return
	}
	ctx, stop := keepStream(r)
	defer stop()
	c := &contender{eventWriter: beginEvents(w), contest: contest, gained: make(chan *grant)}
	c.onWait = func(waits bool) { h.waits.set(c, waits) }
	c.onWait(true)
	defer c.onWait(false)
	changes := c.watch(ctx)
	c.reportHolder(ctx) // before the caller can become the holder
	ended := make(chan error, 1)
	go func() {
		defer func() { <-h.holds }() // after the release
		ended <- c.run(ctx, c.reportHeld)
	}()
	c.writeEvents(ctx, changes, ended)
}

// contender is a caller that takes part in a contest, or follows the leader of a job.
type contender struct {
	*eventWriter
	contest
	sent   []byte // the last event about the holder, encoded
	gained chan *grant
	onWait func(bool) // called when the caller starts or stops waiting; nil if it only follows
}

// waitList holds the start time of each caller that waits for a lock, a job or a group. It has at
// most maxHolds entries.
type waitList struct {
	mu    sync.Mutex
	since map[*contender]time.Time
}

func (l *waitList) set(c *contender, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !waits {
		delete(l.since, c)
		return
	}
	if l.since == nil {
		l.since = map[*contender]time.Time{}
	}
	l.since[c] = time.Now()
}

// read returns the names of the jobs for which callers wait, and the longest time for which a
// caller has waited for each lock.
func (l *waitList) read() (jobs []string, locks map[string]time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	locks = map[string]time.Duration{}
	for c, since := range l.since {
		switch {
		case c.job != "":
			jobs = append(jobs, c.job)
		case c.lock != "":
			locks[c.lock] = max(locks[c.lock], time.Since(since))
		}
	}
	return jobs, locks
}

// grant is one period in which the node holds the lock, or leads, for the caller.
type grant struct {
	ctx      context.Context // ends before there can be another holder
	term     leader.Term
	failed   error         // not nil if the work of the caller failed
	reported chan struct{} // closed when the caller has received EventLost
}

// reportHeld reports a grant to the caller, and blocks until it has also reported the end of the
// grant. It returns an error if the work of the caller failed.
func (c *contender) reportHeld(ctx context.Context, term leader.Term) error {
	g := &grant{ctx: ctx, term: term, reported: make(chan struct{})}
	select {
	case c.gained <- g:
		<-g.reported
	case <-ctx.Done():
	}
	return g.failed
}

// writeEvents writes events until ctx ends or the node closes. With once, it also ends when the
// record is lost.
func (c *contender) writeEvents(ctx context.Context, changes <-chan struct{}, ended <-chan error) {
	var now *grant               // nil while the record is not held
	var settled <-chan time.Time // nil if there is no change to report
	defer func() { now.endGrant() }()
	lose := func(why error) {
		c.writeLost(refusalOf(ctx, why))
		now.endGrant()
		now = nil
		c.onWait(true)
	}
	tick := time.NewTimer(adminapi.KeepAliveInterval)
	defer tick.Stop()
	for c.err == nil {
		c.flushText()
		select {
		case now = <-c.gained:
			settled = nil
			c.reportGrant(now)
			tick.Reset(c.nextInterval(now))
		case <-now.doneChan():
			why := context.Cause(now.ctx)
			if c.job != "" && errors.Is(why, record.ErrReleased) {
				why = leader.ErrDisabled // through this node: nothing else drops the record
			}
			if codeOf(why) == adminapi.CodeClosed {
				c.writeLost(refusalOf(ctx, why))
				c.awaitCaller(ctx, changes)
				return
			}
			if lose(why); c.once || ctx.Err() != nil {
				return
			}
		case <-c.failed:
			if now != nil {
				now.failed = errWorkFailed
				lose(errWorkFailed)
			}
		case err := <-ended:
			c.writeLost(refusalOf(ctx, err))
			return
		case _, open := <-changes:
			switch {
			case !open && (c.once || ctx.Err() != nil):
				changes = nil // the reason is sent to ended, or ctx has ended
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
				settled = time.After(settleInterval) // there may be no leader now
			} else {
				c.writeEvent("", adminapi.EventAlive,
					adminapi.Encode(adminapi.Trust{
						TrustedMS: adminapi.Milliseconds(c.trusted(now.term))}))
			}
			tick.Reset(c.nextInterval(now)) // other events must not delay EventAlive
		case <-ctx.Done():
			c.writeRefusal(ctx)
			return
		}
	}
}

// awaitCaller waits until the caller disconnects because its work has ended. Until then the node,
// which leaves, keeps what it holds for the caller. It returns when the node has closed, at the
// latest.
func (c *contender) awaitCaller(ctx context.Context, changes <-chan struct{}) {
	c.flushText()
	for {
		select {
		case _, open := <-changes:
			if !open {
				return
			}
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
	return max(c.trusted(now.term)/3, minAliveInterval)
}

func (c *contender) reportGrant(g *grant) {
	c.onWait(false)
	if c.granted != nil {
		c.caller.Token, c.caller.Since = adminapi.RecordToken(g.term.Token()), time.Now()
		c.granted(c.caller)
	}
	c.writeEvent("", adminapi.EventHeld,
		adminapi.Encode(adminapi.Grant{Token: adminapi.RecordToken(g.term.Token()),
			TrustedMS: adminapi.Milliseconds(c.trusted(g.term))}))
}

// reportHolder reports the holder of the lock or the leader of the job if it has changed.
func (c *contender) reportHolder(ctx context.Context) {
	kind, text := adminapi.EventLeader, adminapi.Encode(adminapi.JobLeader{Leader: c.holder(ctx)})
	if c.once {
		kind = adminapi.EventWaiting
		text = adminapi.Encode(adminapi.Waiting{Holder: c.holder(ctx), NoLeader: c.why()})
	}
	if !bytes.Equal(text, c.sent) {
		c.sent = text
		c.writeEvent("", kind, text)
	}
}

// recordHolder returns the owner of the records under the keys, which begin with prefix. Of several
// owners, it returns the one with the smallest token. It returns nil if a record has no owner or is
// revoked.
func (h *handler) recordHolder(ctx context.Context, prefix string, keys []string) *adminapi.Holder {
	records, err := h.contests.store.List(ctx, prefix)
	if err != nil {
		return nil // the node has closed, and the stream ends
	}
	var first member.Record
	for i, key := range keys {
		r, ok := holding.Find(records, key)
		if !ok || r.Revoked {
			return nil
		}
		if i == 0 || r.Token.Less(first.Token) {
			first = r
		}
	}
	members := h.node.Status().View.Members
	holder := holderOf(members, leader.Holder{ID: string(first.Value), Token: first.Token})
	return &holder
}
