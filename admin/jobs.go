// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/athena-go/athena/latch"
	"github.com/athena-go/athena/member"
)

// closeInterval is the time between attempts to drop what a job held whose callers are
// gone, where the cluster takes nothing at the moment.
const closeInterval = time.Second

// Job is one of those that have a leader of their own, or latches (package latch).
type Job struct {
	Name string `json:"name"`
	// Leader is null where nobody leads the job.
	Leader *Holder `json:"leader"`
	// Disabled are the members that may not lead it.
	Disabled []Candidate `json:"disabled"`
	// Latches are those that somebody holds.
	Latches []Latch `json:"latches"`
	// Known is false while there is no leader with authority, as far as the node that
	// answers knows, which is since UnknownSince. The rest is then what it learned last: the
	// job may be led by another member meanwhile, or by none.
	Known        bool       `json:"known"`
	UnknownSince *time.Time `json:"unknown_since"`
}

// Candidate is a member that may or may not lead a job. Name is empty where it is no
// member at the moment.
type Candidate struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// Holder is the member that leads a job or holds a latch, itself or for who asked it.
type Holder struct {
	Name    string      `json:"name"` // empty where it is no member any more
	Address string      `json:"address"`
	Token   RecordToken `json:"token"`
}

// Latch is a latch of a job, and who holds it.
type Latch struct {
	Name   string `json:"name"`
	Holder Holder `json:"holder"`
}

// CandidateRequest is the body of POST /v1/jobs/JOB/enable and disable: the address or
// the name of a member.
type CandidateRequest struct {
	Member string `json:"member"`
}

// WithJobs lets callers lock latches, contend for jobs, and follow who leads them, by the
// records of this node: latch.Cluster(node), node.HoldRemaining. What changes something
// needs WithWrite too.
func WithJobs(s latch.Store, remaining func() time.Duration) Option {
	return func(h *handler) {
		h.contests = &contests{
			store: s, remaining: remaining, slots: make(chan struct{}, MaxHolds),
			open: map[string]*opened{},
		}
	}
}

// contests are what callers of a node have to do with jobs.
type contests struct {
	store     latch.Store
	remaining func() time.Duration
	slots     chan struct{} // an entry for each caller that holds something or waits for it

	mu   sync.Mutex
	open map[string]*opened
}

// opened is a job that callers share: one of those that want a latch asks the cluster for
// it at a time.
type opened struct {
	*latch.Job
	callers int
}

// use opens a job, without contending for it, until what it returns is called. That
// blocks until nothing of the job is left here.
func (c *contests) use(ctx context.Context, name string) (*latch.Job, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.open[name]
	if o == nil {
		j, err := latch.Open(ctx, c.store, name, latch.Options{Observer: true})
		if err != nil {
			return nil, nil, err
		}
		o = &opened{Job: j}
		c.open[name] = o
	}
	o.callers++
	return o.Job, func() {
		c.mu.Lock()
		o.callers--
		last := o.callers == 0
		if last {
			delete(c.open, name)
		}
		c.mu.Unlock()
		if last {
			closeJob(o.Job)
		}
	}, nil
}

// closeJob drops what a job held, or ends with the node.
func closeJob(j *latch.Job) {
	for j.Close(context.Background()) != nil {
		time.Sleep(closeInterval)
	}
}

// jobs answers with all jobs.
func (h *handler) jobs(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, h.jobList())
}

func (h *handler) jobList() []Job {
	s := h.node.Status()
	members, known, since := s.View.Members, s.Token != 0, &s.LeaderlessSince
	if known {
		since = nil
	}
	all := []Job{}
	for _, i := range latch.Jobs(h.node.Records(latch.KeyPrefix)) {
		j := Job{
			Name: i.Name, Disabled: []Candidate{}, Latches: []Latch{}, Known: known, UnknownSince: since,
		}
		if i.Leader != (latch.Holder{}) {
			leader := holderOf(members, i.Leader)
			j.Leader = &leader
		}
		for _, id := range i.Disabled {
			j.Disabled = append(j.Disabled, Candidate{nameOf(members, id), id})
		}
		for _, l := range i.Latches {
			j.Latches = append(j.Latches, Latch{l.Name, holderOf(members, l.Holder)})
		}
		all = append(all, j)
	}
	return all
}

func holderOf(members member.Roster, l latch.Holder) Holder {
	return Holder{nameOf(members, l.Member), l.Member, RecordToken(l.Token)}
}

// nameOf is the name of the member with an id of package latch; empty where there is none.
func nameOf(members member.Roster, id string) string {
	for _, m := range members {
		if m.Address.String() == id {
			return m.Name
		}
	}
	return ""
}

// enable lets a member lead a job, or lets it no more.
func (h *handler) enable(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("job")
		act(h, func(ctx context.Context, body CandidateRequest) (any, error) {
			if _, err := h.contest(latch.LeaderKey(name)); err != nil {
				return nil, err
			}
			id, err := h.candidate(name, body.Member)
			if err != nil {
				return nil, err
			}
			j, done, err := h.contests.use(ctx, name)
			if err != nil {
				return nil, err
			}
			defer done()
			return Done{"ok"}, j.Enable(ctx, id, on)
		})(w, r)
	}
}

// contest checks that this handler has jobs, and passes a key on, of which err says why
// there is none.
func (h *handler) contest(key string, err error) (string, error) {
	switch {
	case h.contests == nil:
		return "", &refusal{http.StatusNotFound, CodeNotFound,
			"this program lets nobody contend for jobs (admin.WithJobs)"}
	case err != nil:
		return "", &refusal{http.StatusBadRequest, CodeBadRequest, textOf(err)}
	default:
		return key, nil
	}
}

// candidate is the id of the member with an address or a name. One that is disabled
// needs to be no member any more.
func (h *handler) candidate(job, text string) (id string, err error) {
	for _, j := range h.jobList() {
		for _, d := range j.Disabled {
			if j.Name == job && d.Address == text {
				return text, nil
			}
		}
	}
	m, err := h.find("member", text)
	return m.Address.String(), err
}
