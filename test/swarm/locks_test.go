// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
)

func runLock(p *proc, r *rand.Rand, _ int) {
	for !p.hasEnded() {
		name := pickOne(r, "a", "a", "b")
		l, err := lock.New(p.n.Records(), name)
		if err != nil {
			p.failRun("lock", "%v", err)
			return
		}
		for range 1 + r.IntN(3) {
			longest := pickOne(r, 300*time.Millisecond, 300*time.Millisecond, 5*time.Second)
			_ = p.timeCall("lock.Do", drawTime(r, 0, 7*time.Second), func(ctx context.Context) error {
				return recoverDrawn(func() error {
					return l.Do(ctx, p.drawWork(r, "lock "+name, false, longest))
				})
			})
			p.takeRest(r, 200*time.Millisecond)
		}
		p.closeHandle(l.Close)
	}
}

const permits = "permits"

// permitsOf returns how many functions may run under terms of this name at a time.
func (p *plan) permitsOf(name string) int {
	switch name {
	case permits:
		return 1 + int(p.Seed%8)
	case reading:
		return math.MaxInt
	default:
		return 1
	}
}

// runPermits takes permits of a semaphore.
func runPermits(p *proc, r *rand.Rand, _ int) {
	s, err := lock.NewSemaphore(p.n.Records(), permits, p.plan.permitsOf(permits))
	if err != nil {
		p.failRun(permits, "%v", err)
		return
	}
	var calls running
	for !p.hasEnded() {
		work := p.drawWork(rand.New(rand.NewPCG(r.Uint64(), 0)), permits, false, 300*time.Millisecond)
		limit := drawTime(r, 0, 7*time.Second)
		calls.startNamed("Semaphore.Do", func() {
			_ = p.timeCall("Semaphore.Do", limit, func(ctx context.Context) error {
				return recoverDrawn(func() error { return s.Do(ctx, work) })
			})
		})
		p.takeRest(r, 500*time.Millisecond)
	}
	calls.work.Wait()
}

// probePermits checks that a caller can get each permit while the others are held. The probes of
// different nodes must not share the permits.
func (p *proc) probePermits(ctx context.Context) error {
	l, err := lock.New(p.n.Records(), "probe")
	if err != nil {
		return err
	}
	err = l.Do(ctx, func(ctx context.Context, _ leader.Term) error { return p.takeAllPermits(ctx) })
	return cmp.Or(err, l.Close(ctx))
}

func (p *proc) takeAllPermits(ctx context.Context) error {
	limit := p.plan.permitsOf(permits)
	s, err := lock.NewSemaphore(p.n.Records(), permits, limit)
	if err != nil {
		return err
	}
	held, free := make(chan bool, limit), make(chan bool)
	ended := make(chan error, limit)
	for range limit {
		go func() {
			ended <- s.Do(ctx, func(ctx context.Context, _ leader.Term) error {
				held <- true
				select {
				case <-free:
				case <-ctx.Done():
				}
				return context.Cause(ctx)
			})
		}()
	}
	for n := range limit {
		select {
		case <-held:
		case <-ctx.Done():
			err = fmt.Errorf("%d of %d permits: %w", n, limit, context.Cause(ctx))
		}
	}
	close(free)
	for range limit {
		err = cmp.Or(err, <-ended)
	}
	return cmp.Or(err, s.Close(ctx))
}

const (
	reading = "read"
	writing = "write"
)

// foes maps each kind of work under an RWLock to the kind that must not run beside it.
var foes = map[string]string{reading: writing, writing: reading}

// runRWLock reads and writes under an RWLock. Writers exclude each other and readers.
func runRWLock(p *proc, r *rand.Rand, _ int) {
	l, err := lock.NewRWLock(p.n.Records(), "rw")
	if err != nil {
		p.failRun("rwlock", "%v", err)
		return
	}
	for !p.hasEnded() {
		name, do := reading, l.DoRead
		if r.IntN(3) == 0 {
			name, do = writing, l.DoWrite
		}
		work := p.drawWork(r, name, false, 300*time.Millisecond)
		_ = p.timeCall("RWLock.Do", drawTime(r, 0, 7*time.Second), func(ctx context.Context) error {
			return recoverDrawn(func() error { return do(ctx, work) })
		})
		p.takeRest(r, 200*time.Millisecond)
	}
	p.closeHandle(l.Close)
}
