// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/athena-go/athena/member"
)

var (
	errLost    = errors.New("events were lost")
	errNothing = errors.New("no event was sent: the measurement was too short")
)

// The warm-up before a measurement lasts for Options.For divided by warmUp.
const warmUp = 8

// oneWay measures the events that one member sends to another.
func oneWay(ctx context.Context, o Options, rec *recorder) error {
	return measureEvents(ctx, o, rec, eventColumns, func(ps *processes, ask order) (row, error) {
		ask.Do = doSend
		return measureWarm(ctx, ps, ask, measureFlow)
	})
}

// measureBroadcast measures the events that one member sends to all others.
func measureBroadcast(ctx context.Context, o Options, rec *recorder) error {
	return measureEvents(ctx, o, rec, eventColumns, func(ps *processes, ask order) (row, error) {
		ask.Do = doBroadcast
		return measureFlow(ctx, ps.all[0], ps.all[1:], ask)
	})
}

// measureRequests measures the requests that one member makes to another.
func measureRequests(ctx context.Context, o Options, rec *recorder) error {
	columns := []string{"calls_s", "p50_us", "p99_us", "cpu_s_per_million", "allocs_per_call"}
	return measureEvents(ctx, o, rec, columns, func(ps *processes, ask order) (row, error) {
		ask.Do = doRequest
		return measureWarm(ctx, ps, ask, measureCalls)
	})
}

// measureStreams measures the bytes that one member sends to another on streams.
func measureStreams(ctx context.Context, o Options, rec *recorder) error {
	columns := []string{"mb_s", "cpu_s_per_gb", "allocs_per_mb"}
	return measureEvents(ctx, o, rec, columns, func(ps *processes, ask order) (row, error) {
		ask.Do = doStream
		return measureWarm(ctx, ps, ask, measureVolume)
	})
}

// measureVolume is like measureFlow, but counts bytes instead of events.
func measureVolume(ctx context.Context, from *process, to []*process, ask order) (row, error) {
	t, err := measureSent(ctx, from, to, ask)
	if err != nil {
		return nil, err
	}
	return row{
		"mb_s": t.rate / 1e6, "cpu_s_per_gb": t.cpu * 1e9, "allocs_per_mb": t.allocs * 1e6,
	}, nil
}

// measureWarm runs a measurement from the first node of a cluster to the second, after a short
// warm-up.
func measureWarm(
	ctx context.Context, ps *processes, ask order,
	measure func(context.Context, *process, []*process, order) (row, error),
) (row, error) {
	from, to := ps.all[0], ps.all[1:2]
	var err error
	if ask.To, err = member.ParseAddress(to[0].address); err != nil {
		return nil, err
	}
	warm := ask
	warm.For /= warmUp
	if _, err := measure(ctx, from, to, warm); err != nil {
		return nil, err
	}
	return measure(ctx, from, to, ask)
}

// eventColumns lists the columns that measureFlow fills.
var eventColumns = []string{"msgs_s", "mb_s", "cpu_s_per_million", "allocs_per_msg"}

// measureEvents measures every combination of payload size and number of senders in one
// cluster, and prints the given columns of the rows.
func measureEvents(
	ctx context.Context, o Options, rec *recorder, columns []string,
	once func(*processes, order) (row, error),
) error {
	err := eachSize(o, func(n, rep int) error {
		ps, _, err := startSettled(ctx, o, n)
		if err != nil {
			return err
		}
		defer ps.killAll()
		for _, size := range o.PayloadBytes {
			for _, workers := range o.Workers {
				r, err := once(ps, order{
					Bytes: size, Workers: workers, For: o.For, Own: o.OwnEncoding,
				})
				if err != nil {
					return fmt.Errorf("%d bytes, %d goroutines: %w", size, workers, err)
				}
				r["n"], r["rep"], r["bytes"], r["workers"] = n, rep, size, workers
				if err := rec.recordRow(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for _, column := range columns {
		if err == nil {
			err = rec.printTable(column, "n", "bytes", "workers")
		}
	}
	return err
}

// measureCalls makes one node send requests for the duration of an order.
func measureCalls(ctx context.Context, from *process, to []*process, ask order) (row, error) {
	before, err := to[0].sendOrder(ctx, order{Do: doAwait})
	if err != nil {
		return nil, err
	}
	own, err := from.sendOrder(ctx, order{Do: doAwait})
	if err != nil {
		return nil, err
	}
	made, err := from.sendOrder(ctx, ask)
	if err != nil {
		return nil, err
	}
	if made.Count == 0 {
		return nil, errNothing
	}
	after, err := to[0].sendOrder(ctx, order{Do: doAwait})
	if err != nil {
		return nil, err
	}
	count := float64(made.Count)
	cpu := made.CPU - own.CPU + after.CPU - before.CPU
	allocs := made.Allocs - own.Allocs + after.Allocs - before.Allocs
	return row{
		"calls": made.Count, "calls_s": count / (float64(made.End-made.At) / 1e9),
		"p50_us": made.P50, "p99_us": made.P99,
		"cpu_s_per_million": float64(cpu) / 1e9 / count * 1e6,
		"allocs_per_call":   float64(allocs) / count,
	}, nil
}

// measureFlow measures events.
func measureFlow(ctx context.Context, from *process, others []*process, ask order) (row, error) {
	t, err := measureSent(ctx, from, others, ask)
	if err != nil {
		return nil, err
	}
	return row{
		"msgs": t.count, "msgs_s": t.rate, "mb_s": t.rate * float64(ask.Bytes) / 1e6,
		"cpu_s_per_million": t.cpu * 1e6, "allocs_per_msg": t.allocs,
	}, nil
}

// sentTotals contains the number and rate of the events or bytes that one node sent, and the
// average cost of one.
type sentTotals struct {
	count  int64
	rate   float64 // per second
	cpu    float64 // seconds
	allocs float64
}

// measureSent makes one node send for the duration of an order and waits until the others
// have handled everything.
func measureSent(
	ctx context.Context, from *process, others []*process, ask order,
) (t sentTotals, err error) {
	all := append([]*process{from}, others...)
	before := make([]answer, len(all))
	for i, p := range all {
		if before[i], err = p.sendOrder(ctx, order{Do: doAwait}); err != nil {
			return t, err
		}
	}
	sent, err := from.sendOrder(ctx, ask)
	if err != nil {
		return t, err
	}
	if sent.Count == 0 {
		return t, errNothing
	}
	var last, cpu int64
	var allocs uint64
	for i := len(all) - 1; i >= 0; i-- { // the sender is last, because it may still be writing
		want := before[i].Count
		if i > 0 {
			want += sent.Count
		}
		after, err := all[i].sendOrder(ctx, order{Do: doAwait, Count: want})
		if err != nil {
			return t, err
		}
		if after.Count != want {
			return t, fmt.Errorf("%w: %s handled %d of %d", errLost, all[i].address,
				after.Count-before[i].Count, want-before[i].Count)
		}
		if i > 0 {
			last = max(last, after.At)
		}
		cpu += after.CPU - before[i].CPU
		allocs += after.Allocs - before[i].Allocs
	}
	t.count = sent.Count
	t.rate = float64(t.count) / (float64(last-sent.At) / 1e9)
	t.cpu = float64(cpu) / 1e9 / float64(t.count)
	t.allocs = float64(allocs) / float64(t.count)
	return t, nil
}
