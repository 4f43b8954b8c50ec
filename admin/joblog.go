// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// Limits of a jobLog, whose memory is lost when the node ends.
const (
	// maxChanges is how many changes of one job or lock it keeps, and maxChanged of how many jobs and
	// locks, those that changed last.
	maxChanges = 10
	maxChanged = maxJobs
	// maxCallers is how many grants to callers it keeps, the last ones.
	maxCallers = 2 * maxHolds
	// changePause is the time between two readings of the records, so that busy locks cost little.
	changePause = 100 * time.Millisecond
)

// lockName names a job, whose latch is empty, or one of its locks, permits and shards.
type lockName struct{ job, latch string }

// jobLog remembers the changes of jobs and locks that this node saw, and its own callers.
type jobLog struct {
	mu      sync.Mutex
	begun   bool
	held    map[lockName]tenure
	changes map[lockName][]adminapi.JobChange
	callers []adminapi.Caller // oldest first
}

// tenure is the holder of a job or lock. since is zero if it held it before this node saw it.
type tenure struct {
	holder leader.Holder
	since  time.Time
}

// followChanges records the changes of jobs and locks until ctx ends or the store is closed. It
// begins when the node knows a leader with authority, because its records may be old before.
func (h *handler) followChanges(ctx context.Context) {
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	for h.node.Status().Token.IsZero() && ctx.Err() == nil {
		pause(closeInterval)
	}
	for records := range record.Watch(ctx, h.contests.store, election.JobPrefix) {
		s := h.node.Status()
		h.contests.log.recordChanges(time.Now(), s.View.Members, election.Jobs(records))
		pause(changePause)
	}
}

// recordChanges compares the jobs with those of the last call. Those of the first call are not
// changes.
func (l *jobLog) recordChanges(now time.Time, members member.Roster, jobs []election.JobInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := map[lockName]tenure{}
	note := func(p lockName, by leader.Holder) {
		if by == (leader.Holder{}) {
			return
		}
		old, was := l.held[p]
		if was && old.holder == by {
			held[p] = old
			return
		}
		held[p] = tenure{holder: by}
		if l.begun {
			held[p] = tenure{by, now}
			holder := holderOf(members, by)
			l.addChange(p, adminapi.JobChange{Time: now, Latch: p.latch, Holder: &holder})
		}
	}
	for _, j := range jobs {
		note(lockName{j.Name, ""}, j.Leader)
		for _, k := range j.Locks {
			note(lockName{j.Name, k.Name}, k.Holder)
		}
	}
	for p := range l.held {
		if _, still := held[p]; !still {
			l.addChange(p, adminapi.JobChange{Time: now, Latch: p.latch})
		}
	}
	l.held, l.begun = held, true
}

// addChange adds a change. l.mu must be held.
func (l *jobLog) addChange(p lockName, c adminapi.JobChange) {
	if l.changes == nil {
		l.changes = map[lockName][]adminapi.JobChange{}
	}
	list := append(l.changes[p], c)
	l.changes[p] = list[max(0, len(list)-maxChanges):]
	if len(l.changes) <= maxChanged {
		return
	}
	oldest := p
	for q, list := range l.changes {
		if list[len(list)-1].Time.Before(l.changes[oldest][len(l.changes[oldest])-1].Time) {
			oldest = q
		}
	}
	delete(l.changes, oldest)
}

// addCaller remembers that a caller of this node holds a job or lock.
func (l *jobLog) addCaller(c adminapi.Caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callers = append(l.callers[max(0, len(l.callers)-maxCallers+1):], c)
}

func (l *jobLog) listCallers() []adminapi.Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.callers)
}

// describeHolders adds to jobs since when each job and lock is held, and, with changes, the last
// changes, also those of jobs that have no record now.
func (l *jobLog) describeHolders(jobs []adminapi.Job, changes bool) []adminapi.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range jobs {
		forHolders(&jobs[i], func(p lockName, h *adminapi.Holder) {
			if at := l.held[p]; h.Since == nil && !at.since.IsZero() &&
				adminapi.RecordToken(at.holder.Token) == h.Token {
				h.Since = &at.since
			}
		})
	}
	if !changes {
		return jobs
	}
	for p, list := range l.changes {
		i := slices.IndexFunc(jobs, func(j adminapi.Job) bool { return j.Name == p.job })
		if i < 0 {
			i = len(jobs)
			jobs = append(jobs, adminapi.Job{Name: p.job, Disabled: []adminapi.Candidate{},
				DisabledHosts: []string{}, Latches: []adminapi.Latch{}})
		}
		for _, c := range list {
			if c.Holder != nil {
				holder := *c.Holder // callers are added to it
				c.Holder = &holder
			}
			jobs[i].Changes = append(jobs[i].Changes, c)
		}
	}
	for _, j := range jobs {
		slices.SortStableFunc(j.Changes, func(a, b adminapi.JobChange) int {
			return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Latch, b.Latch))
		})
	}
	slices.SortFunc(jobs, func(a, b adminapi.Job) int { return cmp.Compare(a.Name, b.Name) })
	return jobs
}

// forHolders calls fn for each holder in j, present and former.
func forHolders(j *adminapi.Job, fn func(lockName, *adminapi.Holder)) {
	if j.Leader != nil {
		fn(lockName{j.Name, ""}, j.Leader)
	}
	for i := range j.Latches {
		fn(lockName{j.Name, j.Latches[i].Name}, &j.Latches[i].Holder)
	}
	for _, c := range j.Changes {
		if c.Holder != nil {
			fn(lockName{j.Name, c.Latch}, c.Holder)
		}
	}
}

// addCallers adds to the holders in jobs the callers for which they hold or held. It asks the other
// members among them concurrently, and blocks for at most askTimeout.
func (h *handler) addCallers(ctx context.Context, jobs []adminapi.Job) {
	asked := map[string]bool{}
	for i := range jobs {
		forHolders(&jobs[i], func(_ lockName, by *adminapi.Holder) { asked[by.Address] = true })
	}
	s := h.node.Status()
	answers := [][]adminapi.Caller{h.contests.log.listCallers()}
	from := []string{s.Self.Address.String()}
	if h.others != nil {
		for _, m := range s.View.Members {
			if id := m.Address.String(); asked[id] && id != from[0] {
				from = append(from, id)
			}
		}
		answers = append(answers, make([][]adminapi.Caller, len(from)-1)...)
		h.others.askEach(ctx, len(from)-1, func(ctx context.Context, i int) {
			to, _ := member.ParseAddress(from[i+1]) // valid in a roster
			answers[i+1], _ = h.others.askCallers(ctx, to)
		})
	}
	for i := range jobs {
		forHolders(&jobs[i], func(p lockName, by *adminapi.Holder) {
			if n := slices.Index(from, by.Address); n >= 0 {
				addCaller(by, p, answers[n])
			}
		})
	}
}

// addCaller adds the caller for which by held a job or lock. Of several permits, callers does not
// contain the number. Two that were granted together have one token, and are named together.
func addCaller(by *adminapi.Holder, p lockName, callers []adminapi.Caller) {
	permit := p.latch[:max(0, strings.LastIndex(p.latch, "/"))]
	for _, c := range callers {
		if c.Job != p.job || c.Latch != p.latch && c.Latch != permit || c.Token != by.Token {
			continue
		}
		if by.Caller != "" {
			by.Caller += ", "
		}
		by.Caller += safetext.PeerText(c.Caller)
		since := c.Since
		by.Since = &since
	}
}

// callerOf returns the text with which a request names its caller.
func callerOf(r *http.Request) (string, error) {
	text := r.Header.Get(adminapi.CallerHeader)
	if len(text) > adminapi.MaxCallerBytes || !member.IsPrintable(text) {
		return "", &refusal{http.StatusBadRequest, adminapi.CodeBadRequest, fmt.Sprintf(
			"the header %s must have at most %d printable bytes", adminapi.CallerHeader,
			adminapi.MaxCallerBytes)}
	}
	return text, nil
}
