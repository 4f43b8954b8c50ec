// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

const (
	// longestWait is the timeout of each wait in a measurement.
	longestWait = 30 * time.Second
	// Before its leader is killed, a cluster rests for settle plus a random time up to settleSpread,
	// so that the kill can come at any point between two heartbeats.
	settle, settleSpread = 300 * time.Millisecond, 200 * time.Millisecond
)

// deaths maps values of Options.Signals to signals.
var deaths = map[string]syscall.Signal{Kill: syscall.SIGKILL, Stop: syscall.SIGSTOP}

// measureFailover kills the leader of a new cluster and waits until all other nodes agree on a new
// leader with authority.
func measureFailover(ctx context.Context, o Options, rec *recorder) error {
	err := measureDying(o, rec, func(n int, how string) (row, error) {
		return failoverOnce(ctx, o, n, deaths[how])
	})
	if err != nil {
		return err
	}
	return rec.printTable("ms", "n", "how")
}

// measureDetection kills a follower in a new cluster, and waits until no other member sees it as
// active.
func measureDetection(ctx context.Context, o Options, rec *recorder) error {
	err := measureDying(o, rec, func(n int, how string) (row, error) {
		return detectionOnce(ctx, o, n, deaths[how])
	})
	if err != nil {
		return err
	}
	return rec.printTable("ms", "n", "how")
}

// measureDying measures a kill by each of the configured signals.
func measureDying(o Options, rec *recorder, once func(n int, how string) (row, error)) error {
	return eachSize(o, func(n, rep int) error {
		for _, how := range o.Signals {
			r, err := once(n, how)
			if err != nil {
				r = row{}
			}
			r["n"], r["how"], r["rep"] = n, how, rep
			if err := rec.recordResult(r, err); err != nil {
				return fmt.Errorf("%s: %w", how, err)
			}
		}
		return nil
	})
}

func failoverOnce(ctx context.Context, o Options, n int, how syscall.Signal) (row, error) {
	ps, formed, err := startSettled(ctx, o, n)
	if err != nil {
		return nil, err
	}
	defer ps.killAll()
	old := ps.findLeader()
	if old == nil {
		return nil, errLeaderless
	}
	token := old.view.Token
	died, err := old.Signal(how)
	if err != nil {
		return nil, err
	}
	at, err := ps.waitUntil(ctx, func() bool { return ps.haveAgreed(token, 0) })
	if err != nil {
		return nil, fmt.Errorf("wait for another leader: %w", err)
	}
	return row{"ms": toMilliseconds(at - died), "formation_ms": formed}, nil
}

func detectionOnce(ctx context.Context, o Options, n int, how syscall.Signal) (row, error) {
	ps, formed, err := startSettled(ctx, o, n)
	if err != nil {
		return nil, err
	}
	defer ps.killAll()
	leader := ps.findLeader()
	if leader == nil {
		return nil, errLeaderless
	}
	victim := ps.all[rand.N(n)]
	for victim == leader {
		victim = ps.all[rand.N(n)]
	}
	died, err := victim.Signal(how)
	if err != nil {
		return nil, err
	}
	var first int64
	at, err := ps.waitUntil(ctx, func() bool {
		since, all := ps.isLost(victim)
		if first == 0 {
			first = since
		}
		return all
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the loss of a member: %w", err)
	}
	return row{
		"ms": toMilliseconds(at - died), "first_ms": toMilliseconds(first - died), "formation_ms": formed,
	}, nil
}

var errLeaderless = errors.New("the cluster lost its leader while at rest")

// startSettled forms a cluster, lets it rest, and checks that every node sees all nodes as active.
func startSettled(ctx context.Context, o Options, n int) (*processes, float64, error) {
	ps, formed, err := formCluster(ctx, o, n)
	if err != nil {
		return nil, 0, err
	}
	err = restFor(ctx, settle+rand.N(settleSpread))
	if err == nil {
		_, err = ps.waitUntil(ctx, func() bool { return ps.haveAgreed(0, n) })
	}
	if err != nil {
		ps.killAll()
		return nil, 0, err
	}
	return ps, formed, nil
}

// formCluster starts a cluster and waits until every node sees all nodes as active and the
// same leader with authority. It also returns how long that took, in milliseconds.
func formCluster(ctx context.Context, o Options, n int) (*processes, float64, error) {
	ps, err := newProcesses(ctx, o, n)
	if err != nil {
		return nil, 0, err
	}
	began, err := ps.beginAll()
	if err == nil {
		var at int64
		at, err = ps.waitUntil(ctx, func() bool { return ps.haveAgreed(0, n) })
		if err == nil {
			return ps, toMilliseconds(at - began), nil
		}
	}
	ps.killAll()
	return nil, 0, fmt.Errorf("formation: %w", err)
}

// measureFormation measures cold starts with new durable stores.
func measureFormation(ctx context.Context, o Options, rec *recorder) error {
	err := eachSize(o, func(n, rep int) error {
		r := row{"n": n, "rep": rep}
		ps, took, err := formCluster(ctx, o, n)
		if err == nil {
			var spent float64
			spent, err = ps.processorTime()
			r["ms"], r["cpu_ms"] = took, spent-ps.began
			ps.killAll()
		}
		return rec.recordResult(r, err)
	})
	if err != nil {
		return err
	}
	return errors.Join(rec.printTable("ms", "n"), rec.printTable("cpu_ms", "n"))
}

// measureIdle measures the resources that each node of a cluster at rest uses.
func measureIdle(ctx context.Context, o Options, rec *recorder) error {
	err := eachSize(o, func(n, rep int) error { return idleOnce(ctx, o, rec, n, rep) })
	if err != nil {
		return err
	}
	return errors.Join(rec.printTable("cpu_percent", "n", "role"), rec.printTable("rss_mib", "n",
		"role"))
}

func idleOnce(ctx context.Context, o Options, rec *recorder, n, rep int) error {
	ps, _, err := formCluster(ctx, o, n)
	if err != nil {
		return err
	}
	defer ps.killAll()
	if err := restFor(ctx, o.For*3/10); err != nil {
		return err
	}
	leader := ps.findLeader()
	before, began := make([]float64, n), time.Now()
	for i, p := range ps.all {
		if before[i], _, err = p.Usage(); err != nil {
			return err
		}
	}
	if err := restFor(ctx, o.For); err != nil {
		return err
	}
	var sum float64
	for i, p := range ps.all {
		after, memory, err := p.Usage()
		if err != nil {
			return err
		}
		role := "follower"
		if p == leader {
			role = "leader"
		}
		percent := 100 * (after - before[i]) / float64(time.Since(began).Nanoseconds())
		sum += percent
		r := row{"n": n, "rep": rep, "role": role, "cpu_percent": percent}
		r["rss_mib"] = memory / (1 << 20)
		if err := rec.recordRow(r); err != nil {
			return err
		}
	}
	mean := row{"n": n, "rep": rep, "role": "mean", "cpu_percent": sum / float64(n)}
	return rec.recordRow(mean)
}

// processorTime returns the CPU time of all nodes so far, in milliseconds.
func (ps *processes) processorTime() (float64, error) {
	var sum float64
	for _, p := range ps.all {
		cpu, _, err := p.Usage()
		if err != nil {
			return 0, err
		}
		sum += cpu
	}
	return sum / 1e6, nil
}

func toMilliseconds(nanoseconds int64) float64 { return float64(nanoseconds) / 1e6 }
