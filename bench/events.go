// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/athena-go/athena/member"
)

var errLost = errors.New("events were lost")

// warmUp is the part of Options.For that events go one way before it counts.
const warmUp = 8

// oneWay measures events from one member to another.
func oneWay(ctx context.Context, o Options, rec *recorder) error {
	return events(ctx, o, rec, func(ps *processes, ask order) (row, error) {
		ask.Do = doSend
		from, to := ps.all[0], ps.all[1:2]
		var err error
		if ask.To, err = member.ParseAddress(to[0].address); err != nil {
			return nil, err
		}
		warm := ask
		warm.For /= warmUp
		if _, err := flow(ctx, from, to, warm); err != nil {
			return nil, err
		}
		return flow(ctx, from, to, ask)
	})
}

// broadcast measures events from one member to all others.
func broadcast(ctx context.Context, o Options, rec *recorder) error {
	return events(ctx, o, rec, func(ps *processes, ask order) (row, error) {
		ask.Do = doBroadcast
		return flow(ctx, ps.all[0], ps.all[1:], ask)
	})
}

// events measures each size of payload and number of goroutines in one cluster.
func events(
	ctx context.Context, o Options, rec *recorder, once func(*processes, order) (row, error),
) error {
	err := each(o, func(n, rep int) error {
		ps, _, err := settled(ctx, o, n)
		if err != nil {
			return err
		}
		defer ps.close()
		for _, size := range o.PayloadBytes {
			for _, workers := range o.Workers {
				r, err := once(ps, order{Bytes: size, Workers: workers, For: o.For})
				if err != nil {
					return fmt.Errorf("%d bytes, %d goroutines: %w", size, workers, err)
				}
				r["n"], r["rep"], r["bytes"], r["workers"] = n, rep, size, workers
				if err := rec.put(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for _, column := range []string{"msgs_s", "mb_s", "cpu_s_per_million", "allocs_per_msg"} {
		if err == nil {
			err = rec.table(column, "n", "bytes", "workers")
		}
	}
	return err
}

// flow lets one node send until its time is over and the last event has come to
// all of others, and says how that went.
func flow(ctx context.Context, from *process, others []*process, ask order) (row, error) {
	all := append([]*process{from}, others...)
	before := make([]answer, len(all))
	for i, p := range all {
		var err error
		if before[i], err = p.ask(ctx, order{Do: doAwait}); err != nil {
			return nil, err
		}
	}
	sent, err := from.ask(ctx, ask)
	if err != nil {
		return nil, err
	}
	if sent.Count == 0 {
		return nil, errors.New("nothing was sent in so short a time")
	}
	var last, cpu int64
	var allocs uint64
	for i := len(all) - 1; i >= 0; i-- { // the sender last: it may still have to write
		want := before[i].Count
		if i > 0 {
			want += sent.Count
		}
		after, err := all[i].ask(ctx, order{Do: doAwait, Count: want})
		if err != nil {
			return nil, err
		}
		if after.Count != want {
			return nil, fmt.Errorf("%w: %s handled %d of %d", errLost, all[i].address,
				after.Count-before[i].Count, want-before[i].Count)
		}
		if i > 0 {
			last = max(last, after.At)
		}
		cpu += after.CPU - before[i].CPU
		allocs += after.Allocs - before[i].Allocs
	}
	count := float64(sent.Count)
	rate := count / (float64(last-sent.At) / 1e9)
	return row{
		"msgs": sent.Count, "msgs_s": rate, "mb_s": rate * float64(ask.Bytes) / 1e6,
		"cpu_s_per_million": float64(cpu) / 1e9 / count * 1e6,
		"allocs_per_msg":    float64(allocs) / count,
	}, nil
}
