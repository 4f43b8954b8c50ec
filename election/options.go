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

// Timing has the durations of Lowest. It should be the same for all members of a group.
type Timing struct {
	// Grace is how long a new member waits, at most, for the members that it sees to stay
	// the same (Fabric: startupGracePeriod).
	Grace time.Duration
	// Sample is how long they must stay the same (membershipSampleInterval), at most Grace.
	Sample time.Duration
	// Alive is how long a declaration counts (leaderAliveThreshold). A leader declares
	// twice within it.
	Alive time.Duration
	// Campaign is how long a member that proposes itself waits for others, at most
	// (leaderElectionDuration): longer than a message takes to all.
	Campaign time.Duration
	// Hold is how long a member that gave leadership up leaves it to others, unless one
	// of them takes it before.
	Hold time.Duration
}

// DefaultTiming returns Fabric's durations.
func DefaultTiming() Timing { return Timing(lowest.DefaultTiming()) }

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
		if err := lowest.Timing(o.Timing).Validate(); err != nil {
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
