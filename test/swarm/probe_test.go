// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// The time within which each part of a healed cluster must make progress.
const progress = 10 * time.Second

// aliveProcs returns the processes of all nodes, which must be running.
func (w *world) aliveProcs() (procs []*proc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for node, m := range w.machine {
		if m.now == nil {
			w.failLocked("settle", "node %d is not running after everything was healed", node)
			continue
		}
		procs = append(procs, m.now)
	}
	return procs
}

// probeWorld stops the applications and checks that a healed cluster makes progress in every
// respect.
func (w *world) probeWorld() {
	w.mu.Lock()
	w.stopping = true
	for _, p := range w.procs {
		p.stop()
	}
	w.mu.Unlock()
	w.mu.Lock()
	calm := time.Now()
	for _, m := range w.machine { // a save that began during a fault may still be slow
		if m.calm.After(calm) {
			calm = m.calm
		}
	}
	w.mu.Unlock()
	w.Advance(time.Until(calm) + time.Second)
	// A commit may wait until the records of a lost store end, after each change of the leader.
	for end := time.Now().Add(progress); w.areAppsRunning() && time.Now().Before(end); {
		w.Advance(100 * time.Millisecond)
	}
	w.WaitSettled()
	procs := w.aliveProcs()
	for _, p := range procs {
		if names := p.apps.listNames(); len(names) > 0 {
			w.failRun("hang", "run %d of node %d: %v have not returned %v after their contexts ended:\n%s",
				p.run, p.node, names, progress, stacksWith("swarm.run"))
		}
	}
	w.probing.Store(true)
	w.probeWork(procs)
	var records running
	for _, p := range procs {
		w.probeTraffic(p)
		records.startNamed("records", func() { w.probeRecords(p) })
	}
	records.work.Wait()
	w.checkQuiet(procs)
}

// areAppsRunning reports whether an application of a running process has not returned.
func (w *world) areAppsRunning() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.machine, func(m *machine) bool {
		return m.now != nil && len(m.now.apps.listNames()) > 0
	})
}

// mustSucceed calls fn, which must succeed.
func (p *proc) mustSucceed(what string, fn func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), progress)
	defer cancel()
	p.calls.Add(1)
	if err := fn(ctx); err != nil {
		p.failRun("progress", "run %d of node %d, after everything was healed: %s: %v",
			p.run, p.node, what, err)
	}
}

// probeWork checks that the leader runs work.
func (w *world) probeWork(procs []*proc) {
	ctx, cancel := context.WithTimeout(context.Background(), progress)
	defer cancel()
	var work running
	ran := make(chan bool, len(procs))
	for _, p := range procs {
		work.startNamed("WhileLeader", func() {
			c := p.n.Candidate(leader.Options{})
			_ = c.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
				defer p.enterWork(ctx, leading, term, true)()
				ran <- true
				return nil
			})
		})
	}
	select {
	case <-ran:
	case <-ctx.Done():
		w.failRun("progress", "after everything was healed: no node runs the work of a leader")
	}
	cancel()
	work.work.Wait()
}

// probeTraffic checks that a node reaches all others, also with large events and streams. This
// shows that all bounded resources were given back.
func (w *world) probeTraffic(p *proc) {
	for to := range w.plan.Size {
		p.mustSucceed(fmt.Sprint("Request to node ", to), func(context.Context) error {
			began := time.Now()
			err := p.askNode(to, question{Answer: 10}, progress, true)
			if errors.Is(err, cluster.ErrUnknownOutcome) && time.Since(began) < progress/2 {
				// The peer has given a connection up whose handshake began during a partition.
				err = p.askNode(to, question{Answer: 10}, progress, true)
			}
			return err
		})
		p.mustSucceed(fmt.Sprint("large events to node ", to), func(ctx context.Context) error {
			return p.sendLarge(ctx, to)
		})
		p.mustSucceed(fmt.Sprint("stream to node ", to), func(ctx context.Context) error {
			return p.echoStream(ctx, to, w.plan.payloadSize(100_000), 0)
		})
	}
	if p.node == int(w.plan.Seed%uint64(w.plan.Size)) && !w.plan.Small {
		w.probeCalls(p)
	}
	p.mustSucceed("RequestLeader", func(context.Context) error {
		return p.askNode(w.plan.Size, question{Answer: 10}, progress, true)
	})
}

// probeCalls checks that a node can make more requests than it may have in flight.
func (w *world) probeCalls(p *proc) {
	to := (p.node + 1) % w.plan.Size
	p.mustSucceed("many requests", func(context.Context) error {
		failed := make(chan error, cluster.MaxSending+1)
		var calls running
		for k := range cluster.MaxSending + 1 {
			calls.startNamed("Request", func() { failed <- p.askNode(to, question{}, progress, true) })
			if k%64 == 0 {
				calls.work.Wait()
			}
		}
		calls.work.Wait()
		close(failed)
		for err := range failed {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// sendLarge sends large events concurrently and waits until they are handled. The next node gets
// more than there is room for.
func (p *proc) sendLarge(ctx context.Context, to int) error {
	count := 1
	if to == (p.node+1)%p.plan.Size {
		count = 8
	}
	done := make(chan error, 2*count)
	for n := range count {
		go func() {
			e := event{Run: p.run, Lane: 1000 + n, N: 1, Pad: makePad(1, p.plan.payloadSize(900_000))}
			err := p.n.Send(ctx, p.Address(to), e, cluster.WithOutcome(
				func(_ member.Address, err error) { done <- err }))
			if err != nil {
				done <- err
			}
		}()
	}
	for range count {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// probeRecords checks that a node can change records, and get a lock and a job.
func (w *world) probeRecords(p *proc) {
	store := p.n.Records()
	session := store.Session(nil)
	large := 6 // more large messages than a node keeps at a time
	if w.plan.Small {
		large = 1
	}
	for range large {
		p.mustSucceed("large Commit", func(ctx context.Context) error {
			return p.commitBulk(ctx, session, "bulk/0/")
		})
	}
	p.mustSucceed("lock", func(ctx context.Context) error {
		l, err := lock.New(store, "a")
		if err != nil {
			return err
		}
		err = l.Do(ctx, func(ctx context.Context, term leader.Term) error {
			defer p.enterWork(ctx, "lock a", term, false)()
			return nil
		})
		if err != nil {
			return err
		}
		return l.Close(ctx)
	})
	p.mustSucceed(permits, p.probePermits)
	p.mustSucceed("job", func(ctx context.Context) error {
		if err := election.EnableJob(ctx, store, "job", session.Member(), true); err != nil {
			return err
		}
		job, err := election.OpenJob(ctx, store, "job", election.JobOptions{})
		if err != nil {
			return err
		}
		err = job.Do(ctx, func(ctx context.Context, term leader.Term) error {
			defer p.enterWork(ctx, "job", term, false)()
			return nil
		})
		if err != nil {
			return err
		}
		return job.Close(ctx)
	})
	p.mustSucceed("Hold", func(ctx context.Context) error {
		key := fmt.Sprint("own/", p.node)
		token, err := session.Commit(ctx, record.Op{Kind: record.SetOwned, Key: key})
		if err != nil {
			return err
		}
		if _, err = session.Hold(ctx, key, token); err != nil {
			return err
		}
		_, err = session.Commit(ctx, record.Op{Kind: record.Drop, Key: key})
		return err
	})
}

// checkQuiet checks what must be true soon after the last call.
func (w *world) checkQuiet(procs []*proc) {
	var left []string
	for range 100 {
		w.Advance(100 * time.Millisecond)
		if left = w.listUnquiet(procs); len(left) == 0 {
			return
		}
	}
	w.failRun("quiet", "10 s after the last call: %s", strings.Join(left, "\n"))
}

// listUnquiet lists what earlier calls have left behind.
func (w *world) listUnquiet(procs []*proc) (left []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, a := range w.asks {
		if a.running > 0 {
			left = append(left, fmt.Sprintf("the handler of question %d of run %d still runs in "+
				"run %d after its caller gave up", id, a.from, a.at))
		}
	}
	for _, p := range procs {
		for _, check := range p.watching {
			if what := check(); what != "" {
				left = append(left, fmt.Sprintf("run %d of node %d: %s", p.run, p.node, what))
			}
		}
		for key, f := range w.flows {
			for n, pending := range f.pending {
				if key.run == p.run && pending != 0 {
					left = append(left, fmt.Sprintf("event %d of %v has no outcome", n, key))
				}
			}
		}
	}
	return left
}

// shutDown ends all nodes: some leave, and some close.
func (w *world) shutDown() {
	w.ending.Store(true)
	w.mu.Lock()
	var procs []*proc
	for node, m := range w.machine {
		if p := m.now; p != nil {
			how := leave
			if (int(w.plan.Seed)+node)%3 == 0 {
				how = closeNode
			}
			p.end <- how
			procs = append(procs, p)
		}
	}
	w.mu.Unlock()
	for _, p := range procs {
		<-p.n.Done()
	}
	synctest.Wait()
}
