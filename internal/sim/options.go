// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"
)

// MaxSize is the largest cluster that Run draws. Those above 9 are drawn for the
// formation without some of many seeds only (Plan.Dead).
const MaxSize = 20

// Options says which run to do. What is zero is drawn from the seed.
type Options struct {
	Seed uint64
	Size int           // N, 1 to MaxSize
	For  time.Duration // global time during which faults happen, at most MaxFor
	// Without takes classes of faults out of the run; everything else stays
	// as drawn. It serves to find out what a failure needs.
	Without Faults
	// Record gets everything that happens, where it is set.
	Record func(Record)
}

// MaxFor bounds the faulty part of a run.
const MaxFor = 24 * time.Hour

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	if o.Size < 0 || o.Size > MaxSize {
		return fmt.Errorf("sim: Size %d: want 1 to %d, or 0 to draw it", o.Size, MaxSize)
	}
	if o.For < 0 || o.For > MaxFor {
		return fmt.Errorf("sim: For %v: want up to %v, or 0 to draw it", o.For, MaxFor)
	}
	return nil
}

// Replay is the command that does the same run again and prints it.
func (o Options) Replay() string {
	return fmt.Sprintf("athena sim --seed %d --size %d --for %v", o.Seed, o.Size, o.For)
}
