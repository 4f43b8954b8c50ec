// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// watch checks every node whenever a node reports a change, and keeps the reports with their exact
// times. Authority begins only with a report and never returns within a term. So if two nodes have
// authority at the same instant, a check sees both. The watch fails the test if I1, I2, I3 or I8 of
// protocol.md section 11 does not hold. It also fails the test if a leader gains authority before
// the work of the previous leader has ended.
type watch struct {
	t *testing.T

	mu      sync.Mutex
	nodes   map[*cluster.Node]*watched
	leaders map[uint64]member.Address // chosen leaders, by version
	seen    []report
	shifts  []*shift
	token   member.Token // the greatest valid token so far
	holder  string       // the node that had this token
	left    sync.WaitGroup
}

// watched is one run of a node.
type watched struct {
	host   int
	term   leader.Term // the latest term
	frozen bool        // it is paused and cannot act, so it is not checked
}

// report is an event of a node and its time.
type report struct {
	at    time.Time
	host  int
	event cluster.Event
}

// shift is one run of a leader's work.
type shift struct {
	host  int
	token member.Token
	begin time.Time
	end   time.Time // when its context ended; zero before that
	cause error
}

func newWatch(t *testing.T) *watch {
	return &watch{
		t: t, nodes: make(map[*cluster.Node]*watched), leaders: make(map[uint64]member.Address),
	}
}

// add watches a run of a node until it ends, and runs work whenever the node leads.
func (w *watch) add(host int, n *cluster.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := &watched{host: host}
	w.nodes[n] = own
	w.left.Go(func() {
		for e := range n.Events(context.Background()) {
			w.saw(report{time.Now(), host, e})
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.nodes, n)
	})
	w.left.Go(func() {
		for term := range n.Terms(context.Background()) {
			w.began(own, term)
		}
	})
	w.left.Go(func() {
		_ = n.WhileLeader(context.Background(), func(ctx context.Context, term leader.Term) error {
			return w.work(ctx, own, term)
		})
	})
}

// freeze records that a process is paused or resumed.
func (w *watch) freeze(n *cluster.Node, frozen bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if own := w.nodes[n]; own != nil {
		own.frozen = frozen
	}
	w.check()
}

func (w *watch) saw(s report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
	w.check()
}

func (w *watch) began(own *watched, term leader.Term) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own.term = term
	w.check()
}

// check checks all nodes now.
func (w *watch) check() {
	var valid, quorate, working []int
	for n, own := range w.nodes {
		if own.frozen || n.Err() != nil {
			continue
		}
		v := n.View()
		if v.Quorate {
			w.checkLeader(own.host, v.Version, v.Leader)
		}
		if v.Quorate && v.Role == member.Leading {
			quorate = append(quorate, own.host)
		}
		if own.term.Valid() {
			valid = append(valid, own.host)
			w.checkToken(own)
		}
	}
	for _, s := range w.shifts {
		if s.end.IsZero() && !slices.Contains(valid, s.host) && len(valid) > 0 && !w.frozenAt(s.host) {
			working = append(working, s.host)
		}
	}
	if len(quorate) > 1 || len(valid) > 1 || len(working) > 0 {
		w.t.Errorf("at the same time nodes %v are quorate and those of %v have authority, "+
			"and others, %v, work still", quorate, valid, working)
	}
}

func (w *watch) checkLeader(host int, version uint64, leader member.Address) {
	if known, ok := w.leaders[version]; ok && known != leader {
		w.t.Errorf("node %d: version %d is led by both %v and %v", host, version, known, leader)
	}
	w.leaders[version] = leader
}

func (w *watch) checkToken(own *watched) {
	token, holder := own.term.Token(), own.term.Leader()
	if token.Less(w.token) || token == w.token && holder != w.holder {
		w.t.Errorf("node %d has token %v after %v had %v", own.host, token, w.holder, w.token)
	}
	w.token, w.holder = token, holder
}

func (w *watch) frozenAt(host int) bool {
	for own := range maps.Values(w.nodes) {
		if own.host == host && own.frozen {
			return true
		}
	}
	return false
}

// work lasts until its context ends.
func (w *watch) work(ctx context.Context, own *watched, term leader.Term) error {
	s := &shift{host: own.host, token: term.Token(), begin: time.Now()}
	w.mu.Lock()
	for _, other := range w.shifts {
		if other.end.IsZero() && !w.frozenAt(other.host) {
			w.t.Errorf("node %d begins to work while node %d is working", s.host, other.host)
		}
	}
	w.shifts = append(w.shifts, s)
	w.mu.Unlock()
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	s.end, s.cause = time.Now(), context.Cause(ctx)
	return s.cause
}

// shift returns the latest work of a node.
func (w *watch) shift(host int) shift {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range slices.Backward(w.shifts) {
		if s.host == host {
			return *s
		}
	}
	return shift{}
}

// first returns the time of the first matching event of a node at or after a time, or zero.
func (w *watch) first(from time.Time, host int, is func(cluster.Event) bool) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if s.host == host && !s.at.Before(from) && is(s.event) {
			return s.at
		}
	}
	return time.Time{}
}

// count returns the number of matching events of all nodes at or after a time.
func (w *watch) count(from time.Time, is func(cluster.Event) bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, s := range w.seen {
		if !s.at.Before(from) && is(s.event) {
			n++
		}
	}
	return n
}

// ledBy matches the event that a node leads, with or without authority.
func (s *stack) ledBy(host int, quorate bool) func(cluster.Event) bool {
	return func(e cluster.Event) bool {
		l, ok := e.(cluster.LeaderChanged)
		return ok && l.Leader.Address == s.Address(host) && l.Quorate == quorate
	}
}

// leaderless matches the event that a node no longer follows a leader.
func leaderless(e cluster.Event) bool {
	l, ok := e.(cluster.LeaderChanged)
	return ok && l.Leader.Address.IsZero()
}

// moved matches the event that a member has a new status.
func (s *stack) moved(host int, status member.Status) func(cluster.Event) bool {
	return func(e cluster.Event) bool {
		m, ok := e.(cluster.MemberChanged)
		return ok && m.Member.Address == s.Address(host) && m.Member.Status == status
	}
}

// clock formats times relative to a moment, for readable failures.
type clock time.Time

func (c clock) at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprint(t.Sub(time.Time(c)))
}
