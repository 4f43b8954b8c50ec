// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/test/crashdisk"
	"github.com/athena-go/athena/test/workload"
)

// world is a cluster with its applications and what they have seen.
type world struct {
	*athenatest.Cluster
	t       *testing.T
	plan    plan
	machine []*machine // of each node
	lastRun atomic.Int64
	probing atomic.Bool  // the applications have stopped
	ending  atomic.Bool  // no process starts again
	seconds atomic.Int64 // of virtual time
	calls   atomic.Int64 // calls of the API that were checked

	mu        sync.Mutex // guards everything below, and the fields of checkers
	found     bool
	stopping  bool          // applications must stop
	procs     map[int]*proc // by run
	exclusive map[string]*exclusive
	flows     map[flowKey]*flow
	asks      map[int]*ask
	keys      map[string]*keyState
	lastID    int
	claims    claims
	history   []workload.Operation
}

// machine is what the processes of a node share. world.mu guards it.
type machine struct {
	now      *proc // the running process; nil if there is none
	paused   bool
	disk     *crashdisk.Disk
	copied   *crashdisk.Disk
	copiedBy *proc          // the process that ran when it was copied
	store    member.StoreID // of the last save
	outdated member.StoreID // the store of a copy that has forgotten a run
	full     crashdisk.Op   // operations that fail; 0 means none
	slow     time.Duration  // duration of a sync; 0 means the usual one
	frozen   *freeze        // of the disk; nil if it answers
	wiped    bool           // the next process is JoinOnly
	disturbs int            // faults that make calls of the API late
	calm     time.Time      // when the last of them ended
	resumed  time.Time      // when the last pause ended
	disabled time.Time      // when it was last disabled for a job
}

// proc is a process of a node.
type proc struct {
	*world
	node, run int
	n         *cluster.Node // set before any handler or application runs
	apps      running       // until life ends
	readers   running       // until the node ends
	handlers  running
	dead      bool            // killed; guarded by world.mu
	leaving   bool            // Leave was called; guarded by world.mu
	end       chan string     // leave or closeNode
	life      context.Context // of applications
	stop      func()          // ends life
	watching  []func() string // checks at the end; guarded by world.mu
}

// grace is how much later than its deadline a call may return, in virtual time.
const grace = time.Second

// playPlan runs a plan in a bubble of t.
func playPlan(t *testing.T, p plan) *world {
	w := &world{
		plan: p, procs: map[int]*proc{}, exclusive: map[string]*exclusive{},
		flows: map[flowKey]*flow{}, asks: map[int]*ask{}, keys: map[string]*keyState{},
		claims: claims{stores: map[member.StoreID]int{}},
	}
	defer w.watchClock()()
	if p.Graph != nil {
		w.playGraph(t)
		return w
	}
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		defer w.countSeconds()()
		for node := range p.Size {
			w.machine = append(w.machine, &machine{disk: w.newDisk(node)})
		}
		w.Cluster = athenatest.New(t, athenatest.Options{
			Size: p.Size, Delay: p.Delay, TLS: p.TLS, Config: w.configureNode, Main: w.superviseNode,
		})
		w.startMembers()
		w.playFaults()
		w.healWorld()
		w.probeWorld()
		w.shutDown()
		w.writeHistory()
	})
	return w
}

// failRun reports a broken promise. Only the first one counts: the rest may be consequences.
func (w *world) failRun(kind, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(kind, format, args...)
}

// failLocked is failRun if w.mu is held.
func (w *world) failLocked(kind, format string, args ...any) {
	if !w.found {
		w.found = true
		w.t.Errorf("[%s] %s", kind, fmt.Sprintf(format, args...))
	}
}

func (w *world) configureNode(i int, c *cluster.Config) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i < w.plan.Size {
		c.JoinOnly = w.machine[i].wiped
		return
	}
	c.Name, c.Advertise = "claimant", w.Address(w.claims.victims[i-w.plan.Size]).String()
}

// superviseNode runs a node, and starts it again whenever it has ended.
func (w *world) superviseNode(
	ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option,
) error {
	if i >= w.plan.Size {
		w.superviseClaim(ctx, i-w.plan.Size, cfg, opts)
		return nil
	}
	if w.plan.Drift != nil {
		began, rate := time.Now(), 1+w.plan.Drift[i]
		opts = append(opts, cluster.WithClock(func() time.Time {
			return began.Add(time.Duration(float64(time.Since(began)) * rate))
		}))
	}
	for ctx.Err() == nil && !w.ending.Load() {
		w.runNode(ctx, i, cfg, opts)
		sleepUntil(ctx, 500*time.Millisecond)
	}
	return nil
}

// runNode runs one process until ctx is done or the node ends.
func (w *world) runNode(ctx context.Context, i int, cfg cluster.Config, opts []cluster.Option) {
	p := &proc{world: w, node: i, run: int(w.lastRun.Add(1)), end: make(chan string, 1)}
	p.life, p.stop = context.WithCancel(context.Background())
	defer p.stop()
	w.mu.Lock()
	disk := w.machine[i].disk
	w.mu.Unlock()
	file, err := store.OpenFolder(cfg.DataDir, disk.Folder())
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, syscall.ENOSPC) {
			w.failRun("store", "node %d: %v", i, err)
		}
		return
	}
	w.mu.Lock()
	if w.procs[p.run], w.machine[i].now = p, p; w.stopping {
		p.stop()
	}
	w.mu.Unlock()
	cfg.Receiver = receiver.NewMux()
	p.registerHandlers(cfg.Receiver)
	checked := &checkedStore{Store: file, p: p}
	opts = append(slices.Clone(opts), cluster.WithListening(func(n *cluster.Node) {
		p.n = n
		checked.node.Store(n)
	}))
	n, err := cluster.Start(store.NewContext(ctx, checked), cfg, opts...)
	if err == nil {
		for k, a := range w.plan.Apps {
			if a.Node == i {
				p.startApp(a, k)
			}
		}
		err = p.serveNode(ctx, n)
	}
	if err != nil && ctx.Err() == nil && !p.isDead() && !errors.Is(err, syscall.ENOSPC) {
		w.failRun("stopped", "node %d, run %d: %v", i, p.run, err)
	}
	p.joinApps()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.machine[i].now == p {
		w.machine[i].now = nil
	}
}

// serveNode waits for the end of a node, and returns why it failed.
func (p *proc) serveNode(ctx context.Context, n *cluster.Node) error {
	how := closeNode
	select {
	case <-ctx.Done():
	case how = <-p.end:
	case <-n.Done():
	}
	var err error
	if cause := n.Err(); cause != nil {
		err = cause
	} else if how == leave {
		limited, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		p.mu.Lock()
		p.leaving = true
		p.mu.Unlock()
		// It fails if there is no leader, or if the disk fails.
		if err := n.Leave(limited); err != nil && !p.isDead() &&
			!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, syscall.ENOSPC) {
			p.failRun("leave", "node %d, run %d: %v", p.node, p.run, err)
		}
	}
	if failed := n.Close(); failed != nil && err == nil && !p.isDead() {
		p.failRun("close", "node %d, run %d: Close: %v", p.node, p.run, failed)
	}
	if names := p.handlers.listNames(); len(names) > 0 {
		p.failRun("close", "node %d, run %d: Close returned before the handlers %v", p.node, p.run, names)
	}
	return err
}

// joinApps waits for the applications of a node that has ended: all calls of the API must return.
// Work that ignores its context returns within a second. Time in which the node is paused does not
// count, because reads of its clock block until then.
func (p *proc) joinApps() {
	for waited := 0; waited < 30 && len(p.apps.listNames())+len(p.readers.listNames()) > 0; {
		time.Sleep(100 * time.Millisecond)
		if !p.isPaused() {
			waited++
		}
	}
	if names := append(p.apps.listNames(), p.readers.listNames()...); len(names) > 0 {
		p.failRun("hang", "run %d of node %d: %v have not returned 3 s after the node ended:\n%s",
			p.run, p.node, names, stacksWith("swarm.run"))
	}
	p.stop()
	p.apps.work.Wait()
	p.readers.work.Wait()
	p.checkOutcomes()
}

// startApp starts an application.
func (p *proc) startApp(a app, number int) {
	r := rand.New(rand.NewPCG(a.Seed, uint64(p.run)))
	for _, kind := range appKinds {
		if kind.kind != a.Kind {
			continue
		}
		group := &p.apps
		if a.Kind == watch || a.Kind == events {
			group = &p.readers
		}
		group.startNamed(a.Kind, func() { kind.run(p, r, number) })
	}
}

// hasEnded reports whether the node has ended or the applications must stop.
func (p *proc) hasEnded() bool { return p.n.Err() != nil || p.life.Err() != nil }

// isDead reports whether the process was killed. What it does since then does not count.
func (p *proc) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// isPaused reports whether the machine of the node is paused.
func (p *proc) isPaused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machine[p.node].paused
}

// isExcused reports whether the node is paused, or was until this instant: it cannot have noticed
// how much time has passed. p.mu must be held.
func (p *proc) isExcused() bool {
	m := p.machine[p.node]
	return p.dead || m.paused || m.resumed.Equal(time.Now())
}

// disturbedSince reports whether calls may have been delayed since a time. p.mu must be held.
func (p *proc) disturbedSince(t time.Time) bool {
	m := p.machine[p.node]
	return p.dead || m.disturbs > 0 || !m.calm.Before(t)
}

// timeCall calls fn with a timeout. The call must return soon after that.
func (p *proc) timeCall(
	what string, limit time.Duration, fn func(ctx context.Context) error,
) error {
	parent := p.life
	if p.probing.Load() {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	p.calls.Add(1)
	began := time.Now()
	err := fn(ctx)
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	if took > limit+grace && !p.disturbedSince(began) {
		p.failLocked("late", "node %d, run %d: %s took %v, its context ended after %v: %v",
			p.node, p.run, what, took, limit, err)
	}
	return err
}

// passTime lets virtual time pass.
func passTime(d time.Duration) { time.Sleep(d) }

// sleepUntil waits for d or until ctx is done.
func sleepUntil(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// takeRest waits for a drawn time with the given mean.
func (p *proc) takeRest(r *rand.Rand, mean time.Duration) {
	timer := time.NewTimer(drawTime(r, 0, 2*mean))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.life.Done():
	case <-p.n.Done():
	}
}

// running counts goroutines by name.
type running struct {
	work  sync.WaitGroup
	mu    sync.Mutex
	names map[string]int
}

func (r *running) startNamed(name string, fn func()) {
	r.addName(name)
	go func() {
		defer r.removeName(name)
		fn()
	}()
}

func (r *running) addName(name string) {
	r.work.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = map[string]int{}
	}
	r.names[name]++
}

func (r *running) removeName(name string) {
	defer r.work.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[name]--; r.names[name] == 0 {
		delete(r.names, name)
	}
}

func (r *running) listNames() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
