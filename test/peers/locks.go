// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"time"
)

// measureLocks fills the table of a cluster step by step, and measures the rate of locks with one
// client and with 64 after each step.
func measureLocks(ctx context.Context, o options, rec *recorder) error {
	for rep := range o.reps {
		for _, n := range o.sizes {
			for _, p := range nodePeers {
				if !p.locks || !o.wants(p.name) || n > p.largest {
					continue
				}
				err := locksOf(ctx, o, rec, p.name, n, rep)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err != nil {
					r := row{"peer": p.name, "n": n, "timing": shipped, "rep": rep}
					if err := rec.record(r, err); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func locksOf(
	ctx context.Context, o options, rec *recorder, peer string, n, rep int,
) (err error) {
	c, err := settleCluster(ctx, o, clusterCase{peer, shipped}, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	empty := map[int]float64{} // rate with an empty table, by clients
	filled := 0
	for _, table := range []int{0, 250, 1000, 1900} {
		if err := c.all[0].Send(order{Do: doFill, From: filled, To: table}); err != nil {
			return err
		}
		if _, err := c.all[0].wait(ctx, longestWait); err != nil {
			return err
		}
		filled = table
		for _, clients := range []int{1, 64} {
			r, err := c.lockRate(ctx, clients, o.duration)
			if err != nil {
				return err
			}
			rate, _ := r["locks_s"].(float64)
			if table == 0 {
				empty[clients] = rate
			}
			r["peer"], r["n"], r["rep"], r["clients"], r["table"] = peer, n, rep, clients, table
			r["of_empty"] = rate / empty[clients]
			if err := rec.record(r, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// lockRate spreads clients over all nodes, followers first, and measures the rate of locks after a
// warm-up, in which the clients connect.
func (c *processes) lockRate(ctx context.Context, clients int, d time.Duration) (row, error) {
	nodes := make([]*process, 0, len(c.all))
	leader := c.findLeader()
	for _, p := range c.all {
		if p != leader {
			nodes = append(nodes, p)
		}
	}
	if leader != nil {
		nodes = append(nodes, leader)
	}
	workers := map[*process]int{}
	for i := range clients {
		workers[nodes[i%len(nodes)]]++
	}
	if _, _, err := c.takeLocks(ctx, workers, d/warmUp); err != nil {
		return nil, err
	}
	before, _, err := c.usage()
	if err != nil {
		return nil, err
	}
	count, rate, err := c.takeLocks(ctx, workers, d)
	if err != nil {
		return nil, err
	}
	after, _, err := c.usage()
	return row{"locks_s": rate, "cpu_ms_per_lock": (after - before) / 1e6 / count}, err
}

// takeLocks makes workers acquire and release locks for some time. It returns the number of locks,
// which is at least 1, and the rate.
func (c *processes) takeLocks(
	ctx context.Context, workers map[*process]int, d time.Duration,
) (count, rate float64, err error) {
	for p, w := range workers {
		if err := p.Send(order{Do: doLocks, Workers: w, For: d}); err != nil {
			return 0, 0, err
		}
	}
	for p := range workers {
		r, err := p.wait(ctx, d+longestWait)
		if err != nil {
			return 0, 0, err
		}
		count += float64(r.Count)
		rate += float64(r.Count) / (float64(r.End-r.At) / 1e9)
	}
	return count, rate, nil
}
