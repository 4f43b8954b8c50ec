// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Before a process is killed, a cluster rests for settle plus a random time up to settleSpread. So
// the kill can come at any point between two heartbeats.
const settle, settleSpread = 300 * time.Millisecond, 200 * time.Millisecond

// clusterCase is a peer with a timing.
type clusterCase struct{ peer, timing string }

// eachCluster measures each case with each size. A case that failed is not measured again, because
// a cluster that does not form takes longer than any other.
func eachCluster(
	ctx context.Context, o options, rec *recorder, cases []clusterCase,
	once func(clusterCase, int) (row, error),
) error {
	missed := map[string]bool{}
	for rep := range o.reps {
		for _, n := range o.sizes {
			for _, c := range cases {
				p, err := findNodePeer(c.peer)
				if err != nil {
					return err
				}
				name := fmt.Sprint(c, n)
				if !o.wants(c.peer) || n > p.largest || missed[name] {
					continue
				}
				r, err := once(c, n)
				if r == nil {
					r = row{}
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				missed[name] = err != nil
				r["peer"], r["timing"], r["n"], r["rep"], r["how"] = c.peer, c.timing, n, rep, o.how
				if err := rec.record(r, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// formCluster starts a cluster and waits until it has formed. It returns how long that took, in
// nanoseconds.
func formCluster(ctx context.Context, o options, cc clusterCase, n int) (*processes, int64, error) {
	c, err := newCluster(ctx, o, cc.peer, cc.timing, n)
	if err != nil {
		return nil, 0, err
	}
	began, err := c.start()
	if err == nil {
		var formed int64
		if formed, err = c.waitUntil(ctx, c.agree(n, "")); err == nil {
			return c, formed - began, nil
		}
	}
	return nil, 0, errors.Join(fmt.Errorf("formation: %w", err), c.close())
}

// settleCluster forms a cluster and lets it rest.
func settleCluster(ctx context.Context, o options, cc clusterCase, n int) (*processes, error) {
	c, _, err := formCluster(ctx, o, cc, n)
	if err != nil {
		return nil, err
	}
	if err = waitFor(ctx, settle+rand.N(settleSpread)); err == nil {
		_, err = c.waitUntil(ctx, c.agree(n, ""))
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// measureFailover kills the leader of a new cluster and waits until all others see the same other
// leader.
func measureFailover(ctx context.Context, o options, rec *recorder) error {
	cases := []clusterCase{
		{"athena", halfTime}, {"athena-lease500", halfTime}, {"athena-lease350", halfTime},
		{"athena-trust", halfTime}, {"athena-tls", halfTime}, {"etcd", halfTime},
		{"hashicorp-raft", halfTime}, {"athena", shipped}, {"athena-guard", shipped},
		{"etcd", shipped}, {"hashicorp-raft", shipped},
	}
	return eachCluster(ctx, o, rec, cases, func(cc clusterCase, n int) (r row, err error) {
		c, err := settleCluster(ctx, o, cc, n)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		old := c.findLeader()
		if old == nil {
			return nil, errors.New("the cluster lost its leader while at rest")
		}
		died, err := old.Signal(o.signal())
		if err != nil {
			return nil, err
		}
		at, err := c.waitUntil(ctx, c.agree(0, old.name))
		if err != nil {
			return nil, fmt.Errorf("wait for another leader: %w", err)
		}
		return row{"ms": float64(at-died) / 1e6}, nil
	})
}

// measureFormation measures cold starts. The processes are already running, as they would on
// separate hosts.
func measureFormation(ctx context.Context, o options, rec *recorder) error {
	cases := []clusterCase{
		{"athena", shipped}, {"athena-tls", shipped}, {"etcd", shipped},
		{"hashicorp-raft", shipped}, {"memberlist", shipped},
	}
	return eachCluster(ctx, o, rec, cases, func(cc clusterCase, n int) (r row, err error) {
		c, err := newCluster(ctx, o, cc.peer, cc.timing, n)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		before, _, err := c.usage()
		if err != nil {
			return nil, err
		}
		began, err := c.start()
		if err != nil {
			return nil, err
		}
		at, err := c.waitUntil(ctx, c.agree(n, ""))
		if err != nil {
			return nil, fmt.Errorf("formation: %w", err)
		}
		after, _, err := c.usage()
		return row{"ms": float64(at-began) / 1e6, "cpu_ms": (after - before) / 1e6}, err
	})
}

// measureDetection kills a member of a new cluster that is not its leader, and waits until no
// survivor sees that member.
func measureDetection(ctx context.Context, o options, rec *recorder) error {
	cases := []clusterCase{{"athena", noticing}, {"athena-tls", noticing}, {"memberlist", noticing}}
	return eachCluster(ctx, o, rec, cases, func(cc clusterCase, n int) (r row, err error) {
		c, err := settleCluster(ctx, o, cc, n)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		leader, victim := c.findLeader(), c.all[rand.N(n)]
		for victim == leader {
			victim = c.all[rand.N(n)]
		}
		died, err := victim.Signal(o.signal())
		if err != nil {
			return nil, err
		}
		at, err := c.waitUntil(ctx, c.agree(n-1, ""))
		if err != nil {
			return nil, fmt.Errorf("wait for the loss of a member: %w", err)
		}
		return row{"ms": float64(at-died) / 1e6}, nil
	})
}

// measureIdle measures the resources that a cluster at rest uses.
func measureIdle(ctx context.Context, o options, rec *recorder) error {
	cases := []clusterCase{
		{"athena", halfTime}, {"athena-tls", halfTime}, {"etcd", halfTime},
		{"hashicorp-raft", halfTime}, {"memberlist", halfTime},
	}
	return eachCluster(ctx, o, rec, cases, func(cc clusterCase, n int) (r row, err error) {
		c, _, err := formCluster(ctx, o, cc, n)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		if err := waitFor(ctx, o.duration*3/10); err != nil {
			return nil, err
		}
		return c.measureRest(ctx, o.duration)
	})
}

func (c *processes) measureRest(ctx context.Context, d time.Duration) (row, error) {
	packets, err := countPackets()
	if err != nil {
		return nil, err
	}
	cpu, _, err := c.usage()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := waitFor(ctx, d); err != nil {
		return nil, err
	}
	seconds := time.Since(began).Seconds()
	after, memory, err := c.usage()
	if err != nil {
		return nil, err
	}
	packetsAfter, err := countPackets()
	n := float64(len(c.all))
	return row{
		"cpu_percent": (after - cpu) / 1e7 / seconds / n, "rss_mib": memory / n / (1 << 20),
		"packets_s": (packetsAfter - packets) / seconds / n,
	}, err
}
