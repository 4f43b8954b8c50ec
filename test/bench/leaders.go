// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/children"
)

var errTwoLeaders = errors.New(
	"two nodes held the same at one time, or their tokens did not increase")

// sendOrders sends an order to all nodes simultaneously.
func (ps *processes) sendOrders(ctx context.Context, o order) ([]answer, error) {
	answers, faults := make([]answer, len(ps.all)), make([]error, len(ps.all))
	var asked sync.WaitGroup
	for i, p := range ps.all {
		asked.Go(func() { answers[i], faults[i] = p.sendOrder(ctx, o) })
	}
	asked.Wait()
	return answers, errors.Join(faults...)
}

// measureJobs makes all nodes of a cluster open the same jobs simultaneously, and waits until
// each sees a leader of every job.
func measureJobs(ctx context.Context, o Options, rec *recorder) error {
	err := eachSize(o, func(n, rep int) error {
		ps, _, err := startSettled(ctx, o, n)
		if err != nil {
			return err
		}
		defer ps.killAll()
		began := children.ReadMonotonic()
		answers, err := ps.sendOrders(ctx, order{Do: doJobs, Count: int64(o.Jobs)})
		r := row{"n": n, "rep": rep, "jobs": o.Jobs}
		if err == nil {
			var commits, last int64
			for _, a := range answers {
				commits, last = commits+a.Count, max(last, a.At)
			}
			r["ms"], r["commits_per_job"] = toMilliseconds(last-began), float64(commits)/float64(o.Jobs)
		}
		return rec.recordResult(r, err)
	})
	if err != nil {
		return err
	}
	return errors.Join(rec.printTable("ms", "n", "jobs"), rec.printTable("commits_per_job", "n",
		"jobs"))
}

// measureLocks makes all nodes acquire and drop records for a while; each goroutine uses
// its own records.
func measureLocks(ctx context.Context, o Options, rec *recorder) error {
	err := eachSize(o, func(n, rep int) error {
		ps, _, err := startSettled(ctx, o, n)
		if err != nil {
			return err
		}
		defer ps.killAll()
		for _, workers := range o.Workers {
			ask := order{Do: doLocks, Workers: max(workers/n, 1), For: o.For}
			answers, err := ps.sendOrders(ctx, ask)
			if err != nil {
				return err
			}
			r := row{"n": n, "rep": rep, "clients": ask.Workers * n}
			var rate float64
			for _, a := range answers {
				rate += float64(a.Count) / time.Duration(a.End-a.At).Seconds()
			}
			r["locks_s"], r["p50_us"], r["p99_us"] = rate, answers[0].P50, answers[0].P99
			if err := rec.recordRow(r); err != nil {
				return err
			}
		}
		return nil
	})
	for _, column := range []string{"locks_s", "p50_us", "p99_us"} {
		if err == nil {
			err = rec.printTable(column, "n", "clients")
		}
	}
	return err
}

// measureHolder kills or isolates the node that holds a job, lock or semaphore, and waits until
// another node holds it.
func measureHolder(ctx context.Context, o Options, rec *recorder) error {
	for _, what := range o.Holds {
		err := measureDying(o, rec, func(n int, how string) (row, error) {
			return holderOnce(ctx, o, n, how, what)
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(rec.printTable("ms", "n", "how", "leads"), rec.printTable("gap_ms", "n",
		"how", "leads"))
}

// holderOnce measures the time until another node leads: once from the death or isolation
// of the leader, and once from the end of its leadership. A killed leader stops leading
// when it dies.
func holderOnce(ctx context.Context, o Options, n int, how, what string) (row, error) {
	o.cuts = true
	ps, _, err := startSettled(ctx, o, n)
	if err != nil {
		return nil, err
	}
	defer ps.killAll()
	if _, err := ps.sendOrders(ctx, order{Do: doHold, Hold: what}); err != nil {
		return nil, err
	}
	old, err := ps.awaitHolder(ctx, member.Token{})
	if err != nil {
		return nil, err
	}
	if err := restFor(ctx, settle+rand.N(settleSpread)); err != nil {
		return nil, err
	}
	leads := what
	if ps.findLeader() == old {
		leads += " and cluster"
	}
	died := children.ReadMonotonic()
	if how == Cut {
		err = ps.cutOff(ctx, []*process{old}, true)
	} else {
		died, err = old.Signal(syscall.SIGKILL)
	}
	if err != nil {
		return nil, err
	}
	first := old.holding
	next, err := ps.awaitHolder(ctx, first.Token)
	if err != nil {
		return nil, err
	}
	ended := died
	if how == Cut { // the old leader may report its end after the next leader has started to lead
		_, err := ps.waitUntil(ctx, func() bool { ended = old.holding.Ended; return ended != 0 })
		if err != nil {
			return nil, fmt.Errorf("wait for the end of the old leadership: %w", err)
		}
	}
	if next.holding.Began < ended {
		return nil, fmt.Errorf("%w: %+v, then %+v", errTwoLeaders, old.holding, next.holding)
	}
	return row{
		"leads": leads, "ms": toMilliseconds(next.holding.Began - died),
		"gap_ms": toMilliseconds(next.holding.Began - ended),
	}, nil
}

// awaitHolder waits for a node that leads the job with a token greater than the given one.
func (ps *processes) awaitHolder(
	ctx context.Context, above member.Token,
) (leader *process, err error) {
	_, err = ps.waitUntil(ctx, func() bool {
		for _, p := range ps.all {
			if p.Alive() && p.holding.Ended == 0 && above.Less(p.holding.Token) {
				leader = p
			}
		}
		return leader != nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for a holder with a token above %v: %w", above, err)
	}
	return leader, nil
}

// cutOff cuts some nodes off from the others, or reconnects them.
func (ps *processes) cutOff(ctx context.Context, some []*process, is bool) error {
	part := map[*process]bool{}
	for _, p := range some {
		part[p] = true
	}
	faults := make([]error, len(ps.all))
	var asked sync.WaitGroup
	for i, p := range ps.all {
		o := order{Do: doCut}
		for _, other := range ps.all {
			if is && part[p] != part[other] {
				o.Cut = append(o.Cut, other.address)
			}
		}
		asked.Go(func() { _, faults[i] = p.sendOrder(ctx, o) })
	}
	asked.Wait()
	return errors.Join(faults...)
}

// measureGroup measures elections by Lowest. It measures the time from the death of the leader
// until another node leads, and from the end of a partition until there is a single leader.
func measureGroup(ctx context.Context, o Options, rec *recorder) error {
	o.cuts = true
	err := eachSize(o, func(n, rep int) error {
		for _, c := range []struct {
			what string
			once func(context.Context, *processes) (float64, error)
		}{{"take-over", takeOver}, {"heal", measureHeal}} {
			ps, _, err := startSettled(ctx, o, n)
			if err != nil {
				return err
			}
			r := row{"n": n, "rep": rep, "what": c.what}
			if _, err = ps.sendOrders(ctx, order{Do: doGroup}); err == nil {
				r["ms"], err = c.once(ctx, ps)
			}
			ps.killAll()
			if err := rec.recordResult(r, err); err != nil {
				return fmt.Errorf("%s: %w", c.what, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return rec.printTable("ms", "n", "what")
}

func takeOver(ctx context.Context, ps *processes) (float64, error) {
	old, _, err := ps.waitLed(ctx, ps.all, "")
	if err != nil {
		return 0, err
	}
	if err := restFor(ctx, rand.N(groupTiming().Alive)); err != nil {
		return 0, err
	}
	for _, p := range ps.all {
		if p.address != old {
			continue
		}
		died, err := p.Signal(syscall.SIGKILL)
		if err != nil {
			return 0, err
		}
		_, at, err := ps.waitLed(ctx, ps.all, old)
		return toMilliseconds(at - died), err
	}
	return 0, errLeaderless
}

func measureHeal(ctx context.Context, ps *processes) (float64, error) {
	few, many := ps.all[:len(ps.all)/2], ps.all[len(ps.all)/2:]
	if _, _, err := ps.waitLed(ctx, ps.all, ""); err != nil {
		return 0, err
	}
	if err := ps.cutOff(ctx, few, true); err != nil {
		return 0, err
	}
	for _, part := range [][]*process{few, many} {
		if _, _, err := ps.waitLedWithin(ctx, part); err != nil {
			return 0, fmt.Errorf("wait for a leader of each partition: %w", err)
		}
	}
	if err := restFor(ctx, rand.N(groupTiming().Alive)); err != nil {
		return 0, err
	}
	began := children.ReadMonotonic()
	if err := ps.cutOff(ctx, few, false); err != nil {
		return 0, err
	}
	_, at, err := ps.waitLed(ctx, ps.all, "")
	return toMilliseconds(at - began), err
}

// waitLed waits until all live ones of the given nodes follow the same leader, other than the
// previous one. It returns the leader and the time at which the last node followed it.
func (ps *processes) waitLed(
	ctx context.Context, some []*process, before string,
) (leader string, at int64, err error) {
	_, err = ps.waitUntil(ctx, func() bool {
		leader, at = "", 0
		for _, p := range some {
			if !p.Alive() {
				continue
			}
			if l := p.following.Leader; l == "" || l == before || leader != "" && l != leader {
				return false
			}
			leader, at = p.following.Leader, max(at, p.following.At)
		}
		return leader != ""
	})
	return leader, at, err
}

// waitLedWithin waits until all nodes on one side of a partition follow the same leader from that
// side.
func (ps *processes) waitLedWithin(
	ctx context.Context, part []*process,
) (leader string, at int64, err error) {
	_, err = ps.waitUntil(ctx, func() bool {
		leader = part[0].following.Leader
		inside := false
		for _, p := range part {
			if p.following.Leader != leader {
				return false
			}
			inside = inside || p.address == leader
		}
		return inside
	})
	return leader, at, err
}
