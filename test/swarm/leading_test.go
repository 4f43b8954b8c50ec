// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// appKinds lists the applications.
var appKinds = []struct {
	kind string
	run  func(p *proc, r *rand.Rand, number int)
}{
	{"lead", runLead}, {"operate", runOperate}, {"lock", runLock}, {"job", runJob},
	{"count", runCount}, {"bulk", runBulk}, {watch, runWatch}, {events, runEvents},
	{"history", runHistory},
	{"send", runSend}, {"burst", runBurst}, {"chat", runChat}, {"ask", runAsk}, {"stream", runStream},
	{"queue", runLock}, {"permits", runPermits}, {"rwlock", runRWLock}, {"shards", runShards},
}

// The applications that run until their node ends.
const (
	watch  = "watch"
	events = "events"
)

// exclusive is something that one process at a time may do: lead, hold a lock, lead a job. The
// permits of a semaphore are several.
type exclusive struct {
	token member.Token
	run   int // the process that had the token
	spans []*span
}

// span is a function that runs under a term.
type span struct {
	p    *proc
	ctx  context.Context
	term leader.Term
	from time.Time
}

// enterWork begins a function under a term. The contexts and terms of all functions under earlier
// terms must have ended, and the token must be greater. If shared is set, functions of one process
// may run at the same time, and a process may give up its term before its functions have returned.
func (p *proc) enterWork(
	ctx context.Context, name string, term leader.Term, shared bool,
) (exit func()) {
	s, token := &span{p, ctx, term, time.Now()}, term.Token()
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil || p.isExcused() {
		return func() {}
	}
	x := p.exclusive[name]
	if x == nil {
		x = &exclusive{}
		p.exclusive[name] = x
	}
	limit := p.plan.permitsOf(name)
	o := p.findOverlapLocked(name, shared, limit)
	if o == nil {
		o = p.findOverlapLocked(foes[name], shared, 1)
	}
	if o != nil {
		p.failLocked("overlap", "%s: run %d of node %d begins under %v while run %d of node %d "+
			"works under %v; context: %v; term: %v", name, p.run, p.node, token, o.p.run, o.p.node,
			o.term.Token(), context.Cause(o.ctx), o.term.Err())
	}
	if limit == 1 && (token.Less(x.token) || token == x.token && x.run != p.run) {
		p.failLocked("token", "%s: run %d of node %d has %v, after run %d had %v",
			name, p.run, p.node, token, x.run, x.token)
	}
	x.token, x.run = token, p.run
	x.spans = append(x.spans, s)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, o := range x.spans {
			if o == s {
				x.spans = append(x.spans[:i:i], x.spans[i+1:]...)
				return
			}
		}
	}
}

// findOverlapLocked returns one of the functions with this name that still run, if they are limit
// or more. p.mu must be held.
func (p *proc) findOverlapLocked(name string, shared bool, limit int) *span {
	x := p.exclusive[name]
	if x == nil {
		return nil
	}
	for _, o := range x.spans {
		if o.p.isExcused() || shared && o.p == p {
			continue
		}
		if o.ctx.Err() == nil || o.term.Valid() || !shared && o.hasGivenUp() {
			limit--
		}
		if limit == 0 {
			return o
		}
	}
	return nil
}

// disableTime bounds how long after its call an Enable may take effect.
const disableTime = 10 * time.Second

// hasGivenUp reports whether the process ended the term itself: its function must return before
// another process begins. A node that leaves or closes waits only for some time, and a disabled
// member loses its job even if its function still works. If the node was paused since the function
// began, its lease may have ended first. p.mu must be held.
func (s *span) hasGivenUp() bool {
	why, m := s.term.Err(), s.p.machine[s.p.node]
	return (errors.Is(why, leader.ErrResigned) || errors.Is(why, record.ErrReleased)) &&
		s.p.n.Err() == nil && !s.p.leaving && time.Since(m.disabled) > disableTime &&
		!m.resumed.After(s.from)
}

var errDrawn = errors.New("drawn failure")

// drawWork returns the function of a leader: it works for a drawn time and then returns, with or
// without an error, or panics. Sometimes it ignores the end of its context for a while.
func (p *proc) drawWork(
	r *rand.Rand, name string, shared bool, longest time.Duration,
) func(context.Context, leader.Term) error {
	return func(ctx context.Context, term leader.Term) error {
		defer p.enterWork(ctx, name, term, shared)()
		end := time.Now().Add(drawTime(r, 0, longest))
		for ctx.Err() == nil && time.Now().Before(end) {
			p.checkTerm(ctx, name, term)
			sleepUntil(ctx, drawTime(r, 0, 60*time.Millisecond))
		}
		if r.IntN(4) == 0 {
			passTime(drawTime(r, 0, 700*time.Millisecond))
		}
		switch r.IntN(8) {
		case 0:
			return errDrawn
		case 1:
			panic(errDrawn)
		}
		return nil
	}
}

// maxTimerLag bounds how late a timer fires in a node whose drawn clock is fast: timers run by the
// true time. Real nodes have one clock for both. No term lasts two seconds without a renewal.
const maxTimerLag = time.Duration(maxDrift * float64(2*time.Second))

// checkTerm checks that a context ended before its term did.
func (p *proc) checkTerm(ctx context.Context, name string, term leader.Term) {
	if term.Valid() {
		return
	}
	late := time.Nanosecond // until the goroutine that ends the term has done so
	if p.plan.Drift != nil {
		late += maxTimerLag
	}
	passTime(late)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil && !p.isExcused() {
		p.failLocked("outlives", "%s: run %d of node %d: the context outlives its term of %v",
			name, p.run, p.node, term.Token())
	}
}

// recoverDrawn runs fn and recovers the panics of drawn work.
func recoverDrawn(fn func() error) (err error) {
	defer func() {
		if v := recover(); v == errDrawn {
			err = errDrawn
		} else if v != nil {
			panic(v)
		}
	}()
	return fn()
}

const leading = "leader"

func runLead(p *proc, r *rand.Rand, _ int) {
	for !p.hasEnded() {
		_ = p.timeCall("WhileLeader", drawTime(r, 0, 9*time.Second), func(ctx context.Context) error {
			return recoverDrawn(func() error {
				return p.n.WhileLeader(ctx, p.drawWork(r, leading, true, 5*time.Second))
			})
		})
		p.takeRest(r, 100*time.Millisecond)
	}
}

// runOperate moves leadership around.
func runOperate(p *proc, r *rand.Rand, _ int) {
	c := p.n.Candidate(leader.Options{RetryFor: drawTime(r, 0, time.Second)})
	for !p.hasEnded() {
		p.takeRest(r, 3*time.Second)
		what := pickOne(r,
			"Transfer", "Transfer to", "Resign", "Do", "Do", "WaitLeader", "Close", "Drain")
		if what == "Drain" && r.IntN(4) > 0 {
			continue
		}
		_ = p.timeCall(what, drawTime(r, 0, 6*time.Second), func(ctx context.Context) error {
			switch what {
			case "Transfer":
				return p.n.Transfer(ctx, member.Address{})
			case "Transfer to":
				return p.n.Transfer(ctx, p.Address(r.IntN(p.plan.Size)))
			case "Resign":
				return c.Resign(ctx)
			case "Do":
				return recoverDrawn(func() error {
					return c.Do(ctx, p.drawWork(r, leading, true, 500*time.Millisecond))
				})
			case "WaitLeader":
				_, err := p.n.WaitLeader(ctx)
				return err
			case "Close":
				defer func() { c = p.n.Candidate(leader.Options{}) }()
				return c.Close(ctx)
			default:
				return p.n.Drain(ctx)
			}
		})
	}
}

// runShards runs shards repeatedly, each time for a random time.
func runShards(p *proc, r *rand.Rand, _ int) {
	s, err := election.NewShards(p.n.Records(), "shards", 4)
	if err != nil {
		p.failRun("shards", "%v", err)
		return
	}
	var works [4]func(context.Context, leader.Term) error
	for shard := range works { // each shard runs in its own goroutine
		works[shard] = p.drawWork(rand.New(rand.NewPCG(r.Uint64(), 0)), fmt.Sprint("shard ", shard),
			false, 2*time.Second)
	}
	for !p.hasEnded() {
		limit := drawTime(r, 0, 9*time.Second)
		const stops = 6 * time.Second // until the work and, without a majority, the records end
		_ = p.timeCall("Shards.Run", limit+stops, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return s.Run(ctx, func(ctx context.Context, shard int, term leader.Term) error {
				return recoverDrawn(func() error { return works[shard](ctx, term) })
			})
		})
		p.takeRest(r, 200*time.Millisecond)
	}
}

func runJob(p *proc, r *rand.Rand, _ int) {
	var resigns running
	defer resigns.work.Wait()
	for !p.hasEnded() {
		var job *election.Job
		err := p.timeCall("OpenJob", 2*time.Second, func(ctx context.Context) (err error) {
			job, err = election.OpenJob(ctx, p.n.Records(), "job", election.JobOptions{
				RetryFor: drawTime(r, 0, time.Second),
			})
			return err
		})
		if err != nil {
			p.takeRest(r, 500*time.Millisecond)
			continue
		}
		for range 1 + r.IntN(3) {
			what := pickOne(r, "WhileLeader", "WhileLeader", "Do", "Resign", "Enable")
			if r.IntN(3) == 0 {
				after, limit := drawTime(r, 0, 2*time.Second), drawTime(r, 0, 3*time.Second)
				resigns.startNamed("Resign", func() {
					sleepUntil(p.life, after)
					_ = p.timeCall("Job.Resign", limit, job.Resign)
				})
			}
			_ = p.timeCall("Job."+what, drawTime(r, 0, 5*time.Second), func(ctx context.Context) error {
				switch what {
				case "WhileLeader":
					return recoverDrawn(func() error {
						return job.WhileLeader(ctx, p.drawWork(r, "job", false, 2*time.Second))
					})
				case "Do":
					return recoverDrawn(func() error {
						return job.Do(ctx, p.drawWork(r, "job", false, 500*time.Millisecond))
					})
				case "Resign":
					return job.Resign(ctx)
				default:
					return p.enableMember(ctx, job, r.IntN(p.plan.Size), r.IntN(2) == 0)
				}
			})
			p.takeRest(r, 200*time.Millisecond)
		}
		p.closeHandle(job.Close)
	}
}

// enableMember sets whether a node may lead a job.
func (p *proc) enableMember(ctx context.Context, job *election.Job, node int, on bool) error {
	if !on {
		p.updateMachine(node, func(m *machine) { m.disabled = time.Now() })
	}
	return job.Enable(ctx, p.Address(node).String(), on)
}

// closeHandle closes a lock or a job. Otherwise its record would stay as long as the process.
func (p *proc) closeHandle(closing func(ctx context.Context) error) {
	for p.n.Err() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := closing(ctx)
		cancel()
		if err == nil {
			return
		}
	}
}

// runEvents follows the events of the node. At the end they must have led to its view.
func runEvents(p *proc, r *rand.Rand, _ int) {
	seen := map[member.Address]member.Status{}
	var led cluster.LeaderChanged
	p.atEnd(func() string {
		v := p.n.View()
		if led.Leader.Address != v.Leader || led.Version != v.Version || led.Quorate != v.Quorate {
			return fmt.Sprintf("the last event was %v, the view has %v, %d, quorate: %v",
				led, v.Leader, v.Version, v.Quorate)
		}
		for _, m := range v.Members {
			if got := seen[m.Address]; got != m.Shown() {
				return fmt.Sprintf("%v is %v by the events, %v in the view", m.Address, got, m.Shown())
			}
		}
		return ""
	})
	for e := range p.n.Events(context.Background()) {
		p.mu.Lock()
		switch e := e.(type) {
		case cluster.Snapshot:
			clear(seen)
			for _, m := range e.View.Members {
				seen[m.Address] = m.Shown()
			}
			led = cluster.LeaderChanged{Version: e.View.Version, Quorate: e.View.Quorate}
			led.Leader.Address = e.View.Leader
		case cluster.MemberChanged:
			if seen[e.Member.Address] = e.Member.Status; e.Member.Status == member.Removed {
				delete(seen, e.Member.Address)
			}
		case cluster.LeaderChanged:
			led = e
		}
		p.mu.Unlock()
		if r.IntN(20) == 0 {
			passTime(drawTime(r, 0, 300*time.Millisecond))
		}
	}
}

// atEnd registers a check for the end of a run that the process survives, when all is quiet. It
// returns what is wrong. world.mu is held while it runs.
func (p *proc) atEnd(check func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching = append(p.watching, check)
}
