// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// errWorkFailed ends a grant after the caller has reported failed work.
var errWorkFailed = errors.New("the work failed")

// groups are the groups of package election in which callers take part.
type groups struct {
	list func() []election.Group
	open func(group string, o election.Options) (*leader.Candidate, error) // nil if not served

	mu      sync.Mutex
	callers map[string]groupCaller
}

// groupCaller is the caller that takes part in a group.
type groupCaller struct {
	candidate *leader.Candidate
	failed    chan struct{} // receives a value when the work of the caller has failed
}

// serveGroup takes part in a group for a caller while the connection lasts.
func (h *handler) serveGroup(w http.ResponseWriter, r *http.Request) {
	var body adminapi.GroupRequest
	o, err := election.Options{}, h.checkRequest(w, r, &body)
	if err == nil {
		o, err = h.groupOptions(body)
	}
	if err != nil {
		writeRefusal(w, err)
		return
	}
	h.serveHold(w, r, func() (contest, error) {
		return h.groupContest(r.Context(), r.PathValue("group"), o)
	})
}

// groupOptions returns the options that a caller requests.
func (h *handler) groupOptions(body adminapi.GroupRequest) (o election.Options, err error) {
	if h.groups.open == nil {
		return o, &refusal{http.StatusNotFound, adminapi.CodeNotFound,
			"this program does not serve groups in its admin API (admin.WithGroups)"}
	}
	if err := o.Strategy.UnmarshalText([]byte(body.Strategy)); err != nil {
		return o, &refusal{http.StatusBadRequest, adminapi.CodeBadRequest, textOf(err)}
	}
	o.RetryFor = adminapi.DurationOf(body.RetryForMS)
	defaults := election.DefaultTiming()
	for _, t := range []struct {
		ms             float64
		value, missing *time.Duration
	}{
		{body.GraceMS, &o.Timing.Grace, &defaults.Grace},
		{body.SampleMS, &o.Timing.Sample, &defaults.Sample},
		{body.AliveMS, &o.Timing.Alive, &defaults.Alive},
		{body.CampaignMS, &o.Timing.Campaign, &defaults.Campaign},
		{body.HoldMS, &o.Timing.Hold, &defaults.Hold},
	} {
		switch {
		case t.ms != 0:
			*t.value = adminapi.DurationOf(t.ms)
		case o.Strategy == election.Lowest:
			*t.value = *t.missing
		}
	}
	return o, nil
}

// groupContest opens a group.
func (h *handler) groupContest(
	ctx context.Context, name string, o election.Options,
) (contest, error) {
	s := h.node.Status()
	if o.Strategy == election.Lowest && (s.Self.Status != member.Active || s.Provisional) {
		return contest{}, fmt.Errorf("%w: it does not see the other members yet", cluster.ErrNotActive)
	}
	c, err := h.groups.reopen(ctx, name, o)
	if err != nil {
		if _, code := placeError(err); code == adminapi.CodeFailed { // the options are invalid
			err = &refusal{http.StatusBadRequest, adminapi.CodeBadRequest, textOf(err)}
		}
		return contest{}, err
	}
	failed := make(chan struct{}, 1)
	h.groups.setCaller(name, groupCaller{c, failed})
	return contest{
		holder:  func(context.Context) *adminapi.Holder { return h.groupLeader(c) },
		watch:   func(ctx context.Context) <-chan struct{} { return watchLeader(ctx, c) },
		trusted: func(t leader.Term) time.Duration { return trustedTime(o, t) },
		failed:  failed,
		run: func(ctx context.Context, held heldFunc) error {
			defer closeAll(c.Close)
			defer h.groups.setCaller(name, groupCaller{})
			return c.WhileLeader(ctx, held)
		},
	}, nil
}

// reopen opens a group. If the group is in use, its caller may have just disconnected. Then reopen
// waits until the group is closed, but at most closeInterval.
func (g *groups) reopen(
	ctx context.Context, name string, o election.Options,
) (*leader.Candidate, error) {
	c, err := g.open(name, o)
	if !errors.Is(err, election.ErrGroupInUse) {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, closeInterval)
	defer cancel()
	for _, other := range g.list() {
		if other.Name == name {
			select {
			case <-other.Candidate.Done():
			case <-ctx.Done():
			}
		}
	}
	return g.open(name, o)
}

// setCaller sets the caller that takes part in a group. The zero groupCaller removes the caller.
func (g *groups) setCaller(group string, c groupCaller) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c == (groupCaller{}) {
		delete(g.callers, group)
		return
	}
	if g.callers == nil {
		g.callers = map[string]groupCaller{}
	}
	g.callers[group] = c
}

func (h *handler) groupLeader(c *leader.Candidate) *adminapi.Holder {
	l, ok := c.Leader()
	if !ok {
		return nil
	}
	holder := holderOf(h.node.Status().View.Members, l)
	return &holder
}

// watchLeader returns a channel that receives a value after each change of the leader. The channel
// stays open if the Candidate ends.
func watchLeader(ctx context.Context, c *leader.Candidate) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		for range c.Changes(ctx) {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed
}

// trustedTime returns how long a caller may rely on a term if the node stops responding. With
// Lowest, the last declaration of the leader is at most Alive/2 old. Another member leads when no
// declaration has arrived for Alive. With Static, no other member takes over.
func trustedTime(o election.Options, t leader.Term) time.Duration {
	switch deadline := t.Deadline(); {
	case !t.Valid():
		return 0
	case !deadline.IsZero():
		return max(0, time.Until(deadline))
	case o.Strategy == election.Lowest:
		return max(o.Timing.Alive/2, 3*minAliveInterval)
	default:
		return 3 * adminapi.KeepAliveInterval
	}
}

// serveGroupFailure makes the node retry the failed work of a caller. After the time of
// retry_for_ms, the node gives up the leadership instead.
func (h *handler) serveGroupFailure(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("group")
	handleAct(h, func(context.Context, adminapi.Empty) (any, error) {
		h.groups.mu.Lock()
		c := h.groups.callers[name]
		h.groups.mu.Unlock()
		if c.candidate == nil || !c.candidate.IsLeader() {
			return nil, &refusal{http.StatusConflict, adminapi.CodeNotLeader,
				"no caller of this node leads the group"}
		}
		select {
		case c.failed <- struct{}{}:
		default: // already reported
		}
		return adminapi.Done{Status: "ok"}, nil
	})(w, r)
}
