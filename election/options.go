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

// Timing holds the durations of Lowest. All members of a group should use the same values. Fabric's
// names are in parentheses.
type Timing struct {
	// Grace is the maximum time that a new member waits until the set of members that it sees is
	// stable (startupGracePeriod).
	Grace time.Duration
	// Sample is how long the set must stay unchanged to count as stable (membershipSampleInterval).
	// It must not exceed Grace.
	Sample time.Duration
	// Alive is how long a declaration of a leader is valid (leaderAliveThreshold). The leader sends
	// one every Alive/2.
	Alive time.Duration
	// Campaign is the maximum time that a member that proposes itself waits for other proposals
	// (leaderElectionDuration). It must be longer than a message takes to reach all members.
	Campaign time.Duration
	// Hold is the time for which a member that gave up leadership does not lead again. It ends early
	// if another member leads.
	Hold time.Duration
}

// DefaultTiming returns the durations of Fabric.
func DefaultTiming() Timing { return Timing(lowest.DefaultTiming()) }

// Options configures a group.
type Options struct {
	Strategy Strategy
	// Timing applies to Lowest only. The zero Timing means DefaultTiming.
	Timing Timing
	// RetryFor is how long failed work is retried before the member gives up leadership; see
	// leader.Options. Fabric uses one hour (reconnectTotalTimeThreshold).
	RetryFor time.Duration
}

// withDefaults returns o with defaults for zero fields, or all faults of o joined.
func (o Options) withDefaults(group string) (Options, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("election: "+format, args...))
	}
	if group == "" || len(group) > MaxGroupBytes || !member.IsPrintable(group) {
		fault("the group name %.*q must have 1 to %d printable characters",
			MaxGroupBytes, group, MaxGroupBytes)
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
		fault("Options.Timing is set, but applies only to Lowest, not to %v", o.Strategy)
	}
	if o.RetryFor < 0 {
		fault("Options.RetryFor is %v, want 0 or more", o.RetryFor)
	}
	return o, errors.Join(faults...)
}
