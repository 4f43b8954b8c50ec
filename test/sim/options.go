// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"
)

// MaxSize is the largest cluster that Run draws. Sizes above 9 are drawn only for runs in
// which a cluster forms without some of its seeds (Plan.Dead).
const MaxSize = 20

// Options selects a run. Zero fields are drawn from the seed.
type Options struct {
	Seed uint64
	Size int           // N, 1 to MaxSize
	For  time.Duration // global time during which faults happen, at most MaxFor
	// Without removes classes of faults from the run. It does not change the other draws, so it helps
	// to find the faults that cause a failure.
	Without Faults
	// Record is called for every event of the run. It may be nil.
	Record func(Record)
}

// MaxFor is the longest time with faults in a run.
const MaxFor = 24 * time.Hour

// Validate returns an error if a field is out of range.
func (o Options) Validate() error {
	if o.Size < 0 || o.Size > MaxSize {
		return fmt.Errorf("sim: Size %d: want 1 to %d, or 0 for random", o.Size, MaxSize)
	}
	if o.For < 0 || o.For > MaxFor {
		return fmt.Errorf("sim: For %v: want at most %v, or 0 for random", o.For, MaxFor)
	}
	return nil
}

// Replay returns the command that repeats the run and prints it.
func (o Options) Replay() string {
	return fmt.Sprintf("athena sim --seed %d --size %d --for %v", o.Seed, o.Size, o.For)
}
