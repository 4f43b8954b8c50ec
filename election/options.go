// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/member"
)

// MaxGroupBytes is the maximum length of the name of a group, which must be printable.
const MaxGroupBytes = 128

// Timing has the durations of Lowest. All members of a group should use the same. The names of
// Fabric are in parentheses.
type Timing struct {
	// Grace is how long, at most, a new member waits for the set of members that it sees to
	// become stable (startupGracePeriod).
	Grace time.Duration
	// Sample is how long the set must not change to be stable (membershipSampleInterval); at
	// most Grace.
	Sample time.Duration
	// Alive is how long a declaration of the leader is valid (leaderAliveThreshold). The
	// leader sends one every Alive/2.
	Alive time.Duration
	// Campaign is how long, at most, a member that proposes itself waits for other proposals
	// (leaderElectionDuration). It must exceed the time of a message to all members.
	Campaign time.Duration
	// Hold is how long a member that gave up leadership leaves it to others, unless one of
	// them leads earlier.
	Hold time.Duration
}

// DefaultTiming returns the durations of Fabric.
func DefaultTiming() Timing { return Timing(lowest.DefaultTiming()) }

// Options configures a group.
type Options struct {
	Strategy Strategy
	// Timing applies to Lowest only. The zero Timing stands for DefaultTiming.
	Timing Timing
	// RetryFor is leader.Options.RetryFor: how long failed work is retried before the member
	// gives up leadership. Fabric uses one hour (reconnectTotalTimeThreshold).
	RetryFor time.Duration
}

// withDefaults returns o with defaults for zero fields, or all faults joined.
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
		fault("Options.Timing is set with %v: it applies to Lowest only", o.Strategy)
	}
	if o.RetryFor < 0 {
		fault("Options.RetryFor is %v, want 0 or more", o.RetryFor)
	}
	return o, errors.Join(faults...)
}
