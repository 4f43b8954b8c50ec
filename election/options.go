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

// DefaultBudget is for how long work may fail until leadership is given up, an hour as in
// Fabric (reconnectTotalTimeThreshold).
const DefaultBudget = time.Hour

// Options say how a member takes part in a group.
type Options struct {
	Strategy Strategy
	// Timing is of Lowest alone. What is all zero is lowest.DefaultTiming.
	Timing lowest.Timing
	// Budget is for how long the work may be paused, in sum, between attempts that
	// fail, until the member gives leadership up. Zero is DefaultBudget. Static never
	// gives up, and takes none.
	Budget time.Duration
}

// withDefaults fills in what is zero, or returns every fault at once.
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
	switch timed := o.Timing != (lowest.Timing{}); {
	case o.Strategy == Lowest && !timed:
		o.Timing = lowest.DefaultTiming()
	case o.Strategy == Lowest:
		if err := o.Timing.Validate(); err != nil {
			faults = append(faults, err)
		}
	case timed:
		fault("Options.Timing is set with %v: it is of Lowest alone", o.Strategy)
	}
	switch {
	case o.Budget < 0:
		fault("Options.Budget is %v, want more than 0, or 0 for %v", o.Budget, DefaultBudget)
	case o.Budget > 0 && (o.Strategy == Static || o.Strategy == Standby):
		fault("Options.Budget is set with %v, which never gives up: leave it out", o.Strategy)
	case o.Budget == 0:
		o.Budget = DefaultBudget
	}
	return o, errors.Join(faults...)
}
