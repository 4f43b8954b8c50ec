// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/member"
)

const (
	// watchGrace is how much longer than a member may wait an observer waits for its report.
	watchGrace = 2 * time.Second
	// If members are busy with the handshakes of other observers, an observer must not repeat its own
	// too soon. So each failure adds probeStep to the time that the next member gets to answer, up to
	// mesh.SendTimeout, and doubles the pause before it, up to maxRetryPause.
	probeStep     = 2 * time.Second
	retryPause    = 100 * time.Millisecond
	maxRetryPause = 5 * time.Second
	// leaderlessTime is how long a followed member may know no leader with authority. It may be cut
	// off from a leader that other members know.
	leaderlessTime = 5 * time.Second
	// moveSpread is the time over which the observers of a member move to others when it ends.
	moveSpread = 2 * time.Second
)

// followCluster asks one member for reports, and another one when that fails.
func (o *Observer) followCluster() {
	var untried []member.Address
	for failures := 0; o.life.Err() == nil; {
		if len(untried) == 0 {
			untried = o.listCandidates()
		}
		next := untried[0]
		untried = untried[1:]
		var pause time.Duration
		if o.followMember(next, min(time.Duration(failures+1)*probeStep, mesh.SendTimeout)) {
			// Many observers may have lost one member: their handshakes must not come together.
			failures, untried = 0, nil
			pause = rand.N(moveSpread)
		} else {
			pause = min(retryPause<<min(failures, 10), maxRetryPause)
			pause = pause/2 + rand.N(pause)
			failures++
		}
		select {
		case <-time.After(pause):
		case <-o.life.Done():
		}
	}
}

// followMember asks a member for reports until it does not answer in time, or knows no leader with
// authority for leaderlessTime. The limit is for the first report. It returns false if none
// arrived.
func (o *Observer) followMember(home member.Address, limit time.Duration) (followed bool) {
	var seen []byte // nil, so that the member answers immediately
	current, authority, led := false, false, time.Now()
	for {
		ctx, cancel := context.WithTimeout(o.life, limit)
		report, payload, err := o.messages.Watch(ctx, home, seen)
		cancel()
		if err != nil {
			o.setFailure(err)
			o.doubtView()
			return followed
		}
		if len(payload) > 0 {
			seen = payload
			authority = report.Authority
			current = o.setView(home, View(report))
		}
		if current {
			o.confirmView()
		} else {
			o.doubtView()
		}
		followed, limit = true, messaging.WatchTimeout+watchGrace
		switch now := time.Now(); {
		case authority:
			led = now
		case now.Sub(led) > leaderlessTime:
			return true
		}
	}
}

func (o *Observer) setFailure(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = err
}

// listCandidates returns the members of the configuration and of the view in random order, so that
// observers spread. The member that was followed last is at the end.
func (o *Observer) listCandidates() []member.Address {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.Clone(o.seeds)
	for _, m := range o.view.Members {
		if m.Status != member.Removed && !slices.Contains(all, m.Address) {
			all = append(all, m.Address)
		}
	}
	rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	if i := slices.Index(all, o.home); i >= 0 {
		all = append(slices.Delete(all, i, i+1), o.home)
	}
	return all
}

func (o *Observer) currentHome() member.Address {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.home
}

// doubtView ends the authority in the view after leaderlessTime unless a member confirms the view.
func (o *Observer) doubtView() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.doubt == nil {
		o.doubt = time.AfterFunc(leaderlessTime, o.endAuthority)
	}
}

func (o *Observer) confirmView() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.doubt != nil {
		o.doubt.Stop()
		o.doubt = nil
	}
}

func (o *Observer) endAuthority() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.doubt == nil || !o.view.Authority {
		return // confirmed meanwhile, or no longer believed
	}
	o.view.Authority = false
	o.noteChange(true)
}

// setView publishes a report of home. Calls to members that are gone then fail. It returns false if
// the report is older than the view.
func (o *Observer) setView(home member.Address, v View) (current bool) {
	gone, current := o.replaceView(home, v)
	for _, m := range gone {
		o.messages.Inactive(m)
	}
	return current
}

func (o *Observer) replaceView(
	home member.Address, v View,
) (gone []member.Member, current bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.home = home
	same := v.ClusterID == o.view.ClusterID
	lags := same && v.Version < o.view.Version && (o.view.Authority || !v.Authority)
	if o.known && (lags || !same && !v.Authority) {
		return nil, false // of a member that lags behind, or of a former cluster
	}
	for _, m := range o.view.Members {
		if now, ok := v.Members.Find(m.Address); !ok || now.Incarnation != m.Incarnation ||
			now.Status == member.Removed {
			gone = append(gone, m)
		}
	}
	ended := v.Leader != o.view.Leader || v.Version != o.view.Version || !v.Authority
	o.view, o.known = v, true
	o.noteChange(ended)
	return gone, true
}

// noteChange wakes those that wait for a change of the view, or for the end of its leader. o.mu
// must be held.
func (o *Observer) noteChange(ended bool) {
	if ended {
		close(o.led)
		o.led = make(chan struct{})
	}
	close(o.changed)
	o.changed = make(chan struct{})
}
