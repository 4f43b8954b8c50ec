// SPDX-License-Identifier: Apache-2.0

package lowest

import (
	"errors"
	"fmt"
	"time"
)

// Timing says how long things take. It should be the same for all members of a group.
type Timing struct {
	// Grace is how long a new member waits for the members that it sees to stay the
	// same, at most (Fabric: startupGracePeriod).
	Grace time.Duration
	// Sample is how long they must (membershipSampleInterval), at most Grace.
	Sample time.Duration
	// Alive is for how long a declaration counts (leaderAliveThreshold). A leader
	// declares twice within it.
	Alive time.Duration
	// Campaign is how long who proposes itself waits for others, at most
	// (leaderElectionDuration): longer than a message takes to all.
	Campaign time.Duration
	// Hold is how long a member that gave leadership up leaves it to others, unless
	// one of them takes it before.
	Hold time.Duration
}

// MinTiming and MaxTiming bound each duration of a Timing.
const (
	MinTiming = time.Millisecond
	MaxTiming = 24 * time.Hour
)

// DefaultTiming has the defaults of Fabric: 15 s, 1 s, 10 s, 5 s, and Hold of 6 x Alive.
func DefaultTiming() Timing {
	return Timing{
		Grace: 15 * time.Second, Sample: time.Second, Alive: 10 * time.Second,
		Campaign: 5 * time.Second, Hold: time.Minute,
	}
}

// Validate returns every fault at once.
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
				"lowest: Timing.%s is %v, want %v to %v: begin with DefaultTiming",
				f.name, f.value, MinTiming, MaxTiming))
		}
	}
	if t.Sample > t.Grace {
		faults = append(faults, fmt.Errorf("lowest: Timing.Sample is %v, want at most Grace, %v",
			t.Sample, t.Grace))
	}
	return errors.Join(faults...)
}
