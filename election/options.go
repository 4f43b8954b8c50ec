// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/member"
)

// MaxGroupBytes bounds the name of a group, of printable characters.
const MaxGroupBytes = 128

// Timing has the durations of Lowest: Grace, Sample, Alive, Campaign and Hold.
type Timing = lowest.Timing

// DefaultTiming returns Fabric's durations.
func DefaultTiming() Timing { return lowest.DefaultTiming() }

// Options of a group.
type Options struct {
	Strategy Strategy
	// Timing is for Lowest alone. If it is zero, it is DefaultTiming.
	Timing Timing
	// RetryFor is that of leader.Options: for how long work that failed is tried again
	// until the member gives up. Fabric's value is an hour (reconnectTotalTimeThreshold).
	RetryFor time.Duration
}

// withDefaults fills in zero fields, or returns every fault at once.
func (o Options) withDefaults(group string) (Options, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("election: "+format, args...))
	}
	if group == "" || len(group) > MaxGroupBytes || !member.IsPrintable(group) {
		fault("group %.*q must have 1 to %d printable characters", MaxGroupBytes, group, MaxGroupBytes)
	}
	if !o.Strategy.isKnown() {
		fault("Options.Strategy is %v, want Quorum, Lowest, Static or Standby", o.Strategy)
	}
	switch timed := o.Timing != (Timing{}); {
	case o.Strategy == Lowest && !timed:
		o.Timing = DefaultTiming()
	case o.Strategy == Lowest:
		if err := o.Timing.Validate(); err != nil {
			faults = append(faults, err)
		}
	case timed:
		fault("Options.Timing is set with %v: it is for Lowest alone", o.Strategy)
	}
	if o.RetryFor < 0 {
		fault("Options.RetryFor is %v, want 0 or more", o.RetryFor)
	}
	return o, errors.Join(faults...)
}
