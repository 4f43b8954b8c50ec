// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// measures maps names of measurements to the functions that perform them and record their
// rows.
var measures = map[string]func(context.Context, Options, *recorder) error{
	"failover":  measureFailover,
	"formation": measureFormation,
	"detection": measureDetection,
	"oneway":    oneWay,
	"broadcast": measureBroadcast,
	"request":   measureRequests,
	"stream":    measureStreams,
	"jobs":      measureJobs,
	"holder":    measureHolder,
	"locks":     measureLocks,
	"shards":    measureShards,
	"group":     measureGroup,
	"idle":      measureIdle,
}

// Run runs the named measurement, writes the rows to o.Out and prints tables to out. If ctx
// is done, it kills all processes and returns the cause. Run starts this program again for
// each node, so main must call Child first.
func Run(ctx context.Context, name string, o Options, out io.Writer) error {
	measure := measures[name]
	if measure == nil {
		return fmt.Errorf("bench: unknown measurement %q", name)
	}
	rec, err := newRecorder(name, o, out)
	if err != nil {
		return err
	}
	return errors.Join(measure(ctx, o, rec), rec.close())
}

// eachSize measures each cluster size, with the configured repetitions.
func eachSize(o Options, measure func(n, rep int) error) error {
	for rep := range o.Reps {
		for _, n := range o.Sizes {
			if err := measure(n, rep); err != nil {
				return fmt.Errorf("n=%d, repetition %d: %w", n, rep, err)
			}
		}
	}
	return nil
}

// restFor waits for d or until ctx is done.
func restFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
