// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"sync"

	"github.com/athena-go/athena/leader"
)

// Candidate is a process that may lead: a cluster.Node, an election.Job or a leader.Candidate.
type Candidate interface {
	WhileLeader(ctx context.Context, fn func(context.Context, leader.Term) error) error
}

// Elector implements gocron.Elector: only the leader runs jobs. Its methods may be called
// concurrently.
type Elector struct {
	candidate Candidate

	mu   sync.Mutex
	term leader.Term // the last term of this process
}

// NewElector returns an Elector for a Candidate. No other code may use the Candidate.
func NewElector(c Candidate) *Elector { return &Elector{candidate: c} }

// Run takes part in the election until ctx is done, and returns the cause. Until Run is called,
// this process runs no jobs.
func (e *Elector) Run(ctx context.Context) error {
	return e.candidate.WhileLeader(ctx, func(ctx context.Context, t leader.Term) error {
		e.setTerm(t)
		defer e.setTerm(leader.Term{})
		<-ctx.Done()
		return nil
	})
}

// IsLeader implements gocron.Elector. It returns leader.ErrNotLeader, or nil if this process leads.
func (e *Elector) IsLeader(context.Context) error {
	if !e.readTerm().Valid() {
		return leader.ErrNotLeader
	}
	return nil
}

// Do runs fn if this process leads; otherwise the error is leader.ErrNotLeader or the reason why
// the term ended. The context of fn ends with ctx, or before another process can lead.
func (e *Elector) Do(
	ctx context.Context, fn func(ctx context.Context, term leader.Term) error,
) error {
	t := e.readTerm()
	return t.Do(ctx, func(ctx context.Context) error { return fn(ctx, t) })
}

func (e *Elector) readTerm() leader.Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

func (e *Elector) setTerm(t leader.Term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = t
}
