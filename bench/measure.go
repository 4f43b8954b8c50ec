// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// patience is how long a cluster may take for what is measured.
	patience = 30 * time.Second
	// A cluster rests for this time, and up to that much longer, before its
	// leader dies: at any phase of a heartbeat.
	settle, settleSpread = 300 * time.Millisecond, 200 * time.Millisecond
	// A cluster at rest is measured for idleTime, idleSettle after it formed.
	idleSettle, idleTime = 3 * time.Second, 10 * time.Second
)

// deaths are the values of -signals. A stopped process is like a host that
// hangs: its socket stays open, and nobody is told.
var deaths = map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}

// failover lets the leader of a fresh cluster die, and waits until all others
// see the same other leader with authority.
func failover(o options, rec *recorder) error {
	for rep := range o.reps {
		for _, n := range o.sizes {
			for _, how := range o.signals {
				row, err := failoverOnce(o, n, deaths[how])
				if err != nil {
					return fmt.Errorf("n=%d, %s, repetition %d: %w", n, how, rep, err)
				}
				row["n"], row["how"], row["rep"] = n, how, rep
				if err := rec.put(row); err != nil {
					return err
				}
			}
		}
	}
	return rec.table("ms", "n", "how")
}

func failoverOnce(o options, n int, how syscall.Signal) (row, error) {
	ps, formed, err := form(o, n)
	if err != nil {
		return nil, err
	}
	defer ps.close()
	time.Sleep(settle + rand.N(settleSpread))
	old := ps.leader()
	if old == nil {
		return nil, errors.New("the cluster lost its leader while it rested")
	}
	token := old.sees.Token
	died, err := ps.die(old, how)
	if err != nil {
		return nil, err
	}
	at, err := ps.wait(patience, func() bool { return ps.agree(token, 0) })
	if err != nil {
		return nil, fmt.Errorf("another leader: %w", err)
	}
	return row{"ms": milliseconds(at - died), "formation_ms": formed}, nil
}

// form starts a cluster and waits until every node sees all as active and the
// same leader with authority. It returns how long that took, in milliseconds.
func form(o options, n int) (*processes, float64, error) {
	ps, err := newProcesses(o, n)
	if err != nil {
		return nil, 0, err
	}
	began, err := ps.begin()
	if err == nil {
		var at int64
		at, err = ps.wait(patience, func() bool { return ps.agree(0, n) })
		if err == nil {
			return ps, milliseconds(at - began), nil
		}
	}
	ps.close()
	return nil, 0, fmt.Errorf("formation: %w", err)
}

// formation measures cold starts with fresh durable stores.
func formation(o options, rec *recorder) error {
	for rep := range o.reps {
		for _, n := range o.sizes {
			ps, took, err := form(o, n)
			if err != nil {
				return fmt.Errorf("n=%d, repetition %d: %w", n, rep, err)
			}
			ps.close()
			if err := rec.put(row{"n": n, "rep": rep, "ms": took}); err != nil {
				return err
			}
		}
	}
	return rec.table("ms", "n")
}

// idle measures what each node of a cluster at rest costs.
func idle(o options, rec *recorder) error {
	for rep := range o.reps {
		for _, n := range o.sizes {
			if err := idleOnce(o, rec, n, rep); err != nil {
				return fmt.Errorf("n=%d, repetition %d: %w", n, rep, err)
			}
		}
	}
	return errors.Join(rec.table("cpu_percent", "n", "role"), rec.table("rss_mib", "n", "role"))
}

func idleOnce(o options, rec *recorder, n, rep int) error {
	ps, _, err := form(o, n)
	if err != nil {
		return err
	}
	defer ps.close()
	time.Sleep(idleSettle)
	leader := ps.leader()
	before, began := make([]int64, n), time.Now()
	for i, p := range ps.all {
		if before[i], err = p.cpu(); err != nil {
			return err
		}
	}
	time.Sleep(idleTime)
	var sum float64
	for i, p := range ps.all {
		after, err := p.cpu()
		if err != nil {
			return err
		}
		rss, err := p.memory()
		if err != nil {
			return err
		}
		role := "follower"
		if p == leader {
			role = "leader"
		}
		percent := 100 * float64(after-before[i]) / float64(time.Since(began).Nanoseconds())
		sum += percent
		r := row{"n": n, "rep": rep, "role": role, "cpu_percent": percent, "rss_mib": rss}
		if err := rec.put(r); err != nil {
			return err
		}
	}
	mean := row{"n": n, "rep": rep, "role": "mean", "cpu_percent": sum / float64(n)}
	return rec.put(mean)
}

// cpu is how long the threads of the process ran, in nanoseconds. The times of
// stat count in clock ticks, too coarse for so little.
func (p *process) cpu() (int64, error) {
	pattern := fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid)
	threads, err := filepath.Glob(pattern)
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("%s: no threads: %w", pattern, err)
	}
	var sum int64
	for _, t := range threads {
		text, err := os.ReadFile(t)
		if err != nil {
			return 0, err
		}
		var ran int64
		if _, err := fmt.Sscan(string(text), &ran); err != nil {
			return 0, err
		}
		sum += ran
	}
	return sum, nil
}

// memory is the resident memory of the process in MiB, this program included.
func (p *process) memory() (float64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/statm")
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0, err
	}
	return float64(resident*int64(os.Getpagesize())) / (1 << 20), nil
}

func milliseconds(nanoseconds int64) float64 { return float64(nanoseconds) / 1e6 }
