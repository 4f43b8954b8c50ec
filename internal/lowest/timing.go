// SPDX-License-Identifier: Apache-2.0

package lowest

import (
	"errors"
	"fmt"
	"time"
)

// Timing holds the durations of an election. It should be the same on all members of a group.
type Timing struct {
	// Grace is the maximum time that a new member waits for a stable view (Fabric:
	// startupGracePeriod).
	Grace time.Duration
	// Sample is how long a view must stay unchanged to be stable (membershipSampleInterval). It
	// must not exceed Grace.
	Sample time.Duration
	// Alive is how long a declaration is valid (leaderAliveThreshold). A leader declares itself
	// twice in that time.
	Alive time.Duration
	// Campaign is the maximum time that a member waits for others after it proposed itself
	// (leaderElectionDuration). It must be longer than a message takes to reach all members.
	Campaign time.Duration
	// Hold is how long a member that gave up leadership leaves it to others, unless one of them
	// starts to lead sooner.
	Hold time.Duration
}

// MinTiming and MaxTiming are the limits of each duration of a Timing.
const (
	MinTiming = time.Millisecond
	MaxTiming = 24 * time.Hour
)

// DefaultTiming returns the defaults of Fabric: 15 s, 1 s, 10 s and 5 s, and a Hold of 6 x Alive.
func DefaultTiming() Timing {
	return Timing{
		Grace: 15 * time.Second, Sample: time.Second, Alive: 10 * time.Second,
		Campaign: 5 * time.Second, Hold: time.Minute,
	}
}

// Validate returns all faults, joined.
func (t Timing) Validate() error {
	var faults []error
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"Grace", t.Grace}, {"Sample", t.Sample}, {"Alive", t.Alive}, {"Campaign", t.Campaign},
		{"Hold", t.Hold},
	} {
		if f.value < MinTiming || f.value > MaxTiming {
			faults = append(faults, fmt.Errorf(
				"lowest: Timing.%s is %v, want %v to %v: start from DefaultTiming",
				f.name, f.value, MinTiming, MaxTiming))
		}
	}
	if t.Sample > t.Grace {
		faults = append(faults,
			fmt.Errorf("lowest: Timing.Sample is %v, want at most Timing.Grace, which is %v",
				t.Sample, t.Grace))
	}
	return errors.Join(faults...)
}
