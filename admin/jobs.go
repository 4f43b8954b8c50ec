// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// closeInterval is the time between attempts to release the record of a disconnected caller while
// there is no leader.
const closeInterval = time.Second

// WithJobs enables requests for locks and jobs. The arguments are node.Records() and
// node.HoldRemaining. Requests that change something also need WithWrite.
func WithJobs(s record.Store, remaining func() time.Duration) Option {
	return func(h *handler) {
		h.contests = &contests{
			store: s, remaining: remaining, open: map[semaphoreName]*sharedSemaphore{}, log: &jobLog{},
		}
	}
}

// contests holds the locks and jobs of a node's callers.
type contests struct {
	store     record.Store
	remaining func() time.Duration
	log       *jobLog

	mu   sync.Mutex
	open map[semaphoreName]*sharedSemaphore
}

// semaphoreName names a semaphore. A lock has one permit.
type semaphoreName struct {
	name    string
	permits int
}

// sharedSemaphore is shared by all its callers, so that they wait in one place of the queue.
type sharedSemaphore struct {
	*lock.Semaphore
	callers int
}

// useSemaphore returns the shared semaphore, and a function to call when the caller no longer needs
// it. For the last caller, that function blocks until all permits are returned.
func (c *contests) useSemaphore(n semaphoreName) (*lock.Semaphore, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.open[n]
	if o == nil {
		s, err := lock.NewSemaphore(c.store, n.name, n.permits)
		if err != nil {
			return nil, nil, err
		}
		o = &sharedSemaphore{Semaphore: s}
		c.open[n] = o
	}
	o.callers++
	return o.Semaphore, func() {
		c.mu.Lock()
		o.callers--
		last := o.callers == 0
		if last {
			delete(c.open, n)
		}
		c.mu.Unlock()
		if last {
			closeAll(o.Close)
		}
	}, nil
}

// closeAll retries closeOne until it succeeds.
func closeAll(closeOne func(context.Context) error) {
	for closeOne(context.Background()) != nil {
		time.Sleep(closeInterval)
	}
}

// serveJobs responds with all jobs. With ?callers it asks the members for the callers that hold.
func (h *handler) serveJobs(w http.ResponseWriter, r *http.Request) {
	all, err := h.jobList(r.Context())
	if err != nil {
		writeRefusal(w, err)
		return
	}
	if query := r.URL.Query(); h.contests != nil {
		all = h.contests.log.describeHolders(all, query.Has(wantChanges))
		if query.Has(wantCallers) {
			h.addCallers(r.Context(), all)
		}
	}
	adminapi.WriteJSON(w, http.StatusOK, all)
}

func (h *handler) jobList(ctx context.Context) ([]adminapi.Job, error) {
	records, err := h.node.Records().List(ctx, election.JobPrefix)
	if err != nil {
		return nil, err
	}
	s := h.node.Status()
	members, known, since := s.View.Members, !s.Token.IsZero(), &s.LeaderlessSince
	if known {
		since = nil
	}
	all := []adminapi.Job{}
	for _, i := range election.Jobs(records) {
		j := adminapi.Job{
			Name: i.Name, Disabled: []adminapi.Candidate{}, DisabledHosts: append([]string{}, i.Hosts...),
			Latches: []adminapi.Latch{}, Known: known, UnknownSince: since,
		}
		if i.Leader != (leader.Holder{}) {
			by := holderOf(members, i.Leader)
			j.Leader = &by
		}
		for _, id := range i.Disabled {
			j.Disabled = append(j.Disabled, adminapi.Candidate{Name: nameOf(members, id), Address: id})
		}
		for _, l := range i.Locks {
			j.Latches = append(j.Latches, adminapi.Latch{
				Name: l.Name, Holder: holderOf(members, l.Holder), Stuck: l.Stuck,
			})
		}
		all = append(all, j)
	}
	return all, nil
}

func holderOf(members member.Roster, l leader.Holder) adminapi.Holder {
	return adminapi.Holder{Name: nameOf(members, l.ID), Address: l.ID,
		Token: adminapi.RecordToken(l.Token)}
}

// nameOf returns the name of the member with the given id, or "" if no member has it.
func nameOf(members member.Roster, id string) string {
	for _, m := range members {
		if m.Address.String() == id {
			return m.Name
		}
	}
	return ""
}

// serveEnable enables or disables a member, or the members of a host, for a job.
func (h *handler) serveEnable(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("job")
		handleAct(h, func(ctx context.Context, body adminapi.CandidateRequest) (any, error) {
			if _, err := h.checkJobs(holding.LeaderKey(name)); err != nil {
				return nil, err
			}
			if body.Host != "" {
				if body.Member != "" {
					return nil, &refusal{http.StatusBadRequest, adminapi.CodeBadRequest,
						"member and host are both set: remove one of them"}
				}
				if _, err := h.checkJobs(holding.HostKey(name, body.Host)); err != nil {
					return nil, err
				}
				return adminapi.Done{Status: "ok"},
					election.EnableHost(ctx, h.contests.store, name, body.Host, on)
			}
			id, err := h.findCandidate(ctx, name, body.Member)
			if err != nil {
				return nil, err
			}
			return adminapi.Done{Status: "ok"}, election.EnableJob(ctx, h.contests.store, name, id, on)
		})(w, r)
	}
}

// checkJobs returns key. It returns a refusal if err is not nil or the handler was created without
// WithJobs.
func (h *handler) checkJobs(key string, err error) (string, error) {
	switch {
	case h.contests == nil:
		return "", &refusal{http.StatusNotFound, adminapi.CodeNotFound,
			"this program does not serve jobs in its admin API (admin.WithJobs)"}
	case err != nil:
		return "", &refusal{http.StatusBadRequest, adminapi.CodeBadRequest, textOf(err)}
	default:
		return key, nil
	}
}

// findCandidate returns the id of the member with the given address or name. A disabled address is
// found even if it no longer belongs to a member.
func (h *handler) findCandidate(ctx context.Context, job, text string) (id string, err error) {
	jobs, err := h.jobList(ctx)
	if err != nil {
		return "", err
	}
	for _, j := range jobs {
		for _, d := range j.Disabled {
			if j.Name == job && d.Address == text {
				return text, nil
			}
		}
	}
	m, err := h.findMember("member", text)
	return m.Address.String(), err
}
