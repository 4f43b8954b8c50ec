// SPDX-License-Identifier: Apache-2.0

package message

import (
	"errors"
	"time"

	"github.com/athena-go/athena/internal/fielderr"
)

// Timings are the intervals and timeouts of a cluster. They are the same on
// every node; a difference is refused at the greet, because the lease of a
// leader relies on them.
type Timings struct {
	HeartbeatInterval time.Duration // between keep-alives
	HeartbeatTimeout  time.Duration // silence after which a member is unreachable
	LeaderTimeout     time.Duration // silence after which a leader is lost
	LeaseTimeout      time.Duration // how long an ack makes a follower support its leader
	TTLTimeout        time.Duration // silence after which a member is leaving
	RetryInterval     time.Duration // between attempts to join
}

// MaxTimeout bounds every timing; more is taken for a mistake.
const MaxTimeout = 24 * time.Hour

// MinInterval is the shortest timing that is accepted.
const MinInterval = time.Millisecond

// LeaseMargin is the part of LeaseTimeout that a leader counts on, and of HoldTimeout
// an owner of records: clocks may differ in rate by less than 10/9 (protocol.md section 5).
func LeaseMargin(lease time.Duration) time.Duration { return lease / 10 * 9 }

// HoldTimeout is how long an extending ack keeps the records of an owner: LeaseTimeout
// longer than it takes to miss a leader, so that they outlast its crash. A member that is
// silent for TTLTimeout loses them in any case (protocol.md section 10).
func (t Timings) HoldTimeout() time.Duration {
	return min(t.LeaseTimeout+t.LeaderTimeout, t.TTLTimeout)
}

// Validate returns every fault at once, each a *fielderr.Error joined by errors.Join.
func (t Timings) Validate() error {
	var faults fielderr.List
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"HeartbeatInterval", t.HeartbeatInterval},
		{"HeartbeatTimeout", t.HeartbeatTimeout},
		{"LeaderTimeout", t.LeaderTimeout},
		{"LeaseTimeout", t.LeaseTimeout},
		{"TTLTimeout", t.TTLTimeout},
		{"RetryInterval", t.RetryInterval},
	} {
		faults.Check(f.value >= MinInterval && f.value <= MaxTimeout, f.name,
			"%v: must be between %v and %v", f.value, MinInterval, MaxTimeout)
	}
	// A follower that missed an ack is heard after one and a half.
	faults.Check(2*t.HeartbeatInterval <= t.HeartbeatTimeout, "HeartbeatInterval",
		"%v must be at most half of %s %v", t.HeartbeatInterval,
		fielderr.Name("HeartbeatTimeout"), t.HeartbeatTimeout)
	faults.Check(t.HeartbeatTimeout <= t.LeaderTimeout, "HeartbeatTimeout",
		"%v must be at most %s %v", t.HeartbeatTimeout, fielderr.Name("LeaderTimeout"), t.LeaderTimeout)
	faults.Check(t.LeaderTimeout <= t.TTLTimeout, "LeaderTimeout",
		"%v must be at most %s %v", t.LeaderTimeout, fielderr.Name("TTLTimeout"), t.TTLTimeout)
	faults.Check(t.HeartbeatInterval < t.LeaseTimeout && t.LeaseTimeout <= t.LeaderTimeout,
		"LeaseTimeout", "%v must be above %s %v and at most %s %v", t.LeaseTimeout,
		fielderr.Name("HeartbeatInterval"), t.HeartbeatInterval,
		fielderr.Name("LeaderTimeout"), t.LeaderTimeout)
	faults.Check(LeaseMargin(t.LeaseTimeout) > 3*t.HeartbeatInterval, "LeaseTimeout",
		"%v: nine tenths of it must exceed three times %s %v", t.LeaseTimeout,
		fielderr.Name("HeartbeatInterval"), t.HeartbeatInterval)
	return errors.Join(faults...)
}
