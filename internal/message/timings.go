// SPDX-License-Identifier: Apache-2.0

package message

import (
	"errors"
	"time"

	"github.com/athena-go/athena/internal/fielderr"
)

// Timings are the intervals and timeouts of a cluster. The lease of a leader depends on them, so
// they are the same on every node. A node with other timings is refused when it greets, unless both
// nodes accept the timings of the other one (protocol.md section 8, two sets of timings).
type Timings struct {
	HeartbeatInterval time.Duration // between keep-alives
	HeartbeatTimeout  time.Duration // silence after which a member is unreachable
	LeaderTimeout     time.Duration // silence after which a leader is lost
	LeaseTimeout      time.Duration // how long a follower supports its leader after an ack
	TTLTimeout        time.Duration // silence after which a member is leaving
	RetryInterval     time.Duration // time between attempts to join
}

// Longer returns the longer of each timing of t and other.
func (t Timings) Longer(other Timings) Timings {
	return Timings{
		HeartbeatInterval: max(t.HeartbeatInterval, other.HeartbeatInterval),
		HeartbeatTimeout:  max(t.HeartbeatTimeout, other.HeartbeatTimeout),
		LeaderTimeout:     max(t.LeaderTimeout, other.LeaderTimeout),
		LeaseTimeout:      max(t.LeaseTimeout, other.LeaseTimeout),
		TTLTimeout:        max(t.TTLTimeout, other.TTLTimeout),
		RetryInterval:     max(t.RetryInterval, other.RetryInterval),
	}
}

// Shorter returns the shorter of each timing of t and other. If there are no other timings, it
// returns t.
func (t Timings) Shorter(other Timings) Timings {
	if other == (Timings{}) {
		return t
	}
	return Timings{
		HeartbeatInterval: min(t.HeartbeatInterval, other.HeartbeatInterval),
		HeartbeatTimeout:  min(t.HeartbeatTimeout, other.HeartbeatTimeout),
		LeaderTimeout:     min(t.LeaderTimeout, other.LeaderTimeout),
		LeaseTimeout:      min(t.LeaseTimeout, other.LeaseTimeout),
		TTLTimeout:        min(t.TTLTimeout, other.TTLTimeout),
		RetryInterval:     min(t.RetryInterval, other.RetryInterval),
	}
}

// ValidateOther returns an error if a node with the timings t cannot accept the timings other too.
// A leader that accepts both extends records by the shorter HoldTimeout, and a follower may answer
// it once in the longer HeartbeatInterval. As with a lease, three answers must fit.
func (t Timings) ValidateOther(other Timings) error {
	if other == (Timings{}) {
		return nil
	}
	hold, beat := t.Shorter(other).HoldTimeout(), t.Longer(other).HeartbeatInterval
	var faults fielderr.List
	faults.Check(LeaseMargin(hold) > 3*beat, "OtherTimings",
		"nine tenths of %v, the shorter time for which records are held, must exceed three times %v, "+
			"the longer heartbeat interval: change the timings in several steps", hold, beat)
	return errors.Join(faults...)
}

// TimingField is one field of Timings.
type TimingField struct {
	Name  string
	Value time.Duration
}

// Fields lists all fields.
func (t Timings) Fields() [6]TimingField {
	return [...]TimingField{
		{"HeartbeatInterval", t.HeartbeatInterval},
		{"HeartbeatTimeout", t.HeartbeatTimeout},
		{"LeaderTimeout", t.LeaderTimeout},
		{"LeaseTimeout", t.LeaseTimeout},
		{"TTLTimeout", t.TTLTimeout},
		{"RetryInterval", t.RetryInterval},
	}
}

// MinInterval and MaxTimeout bound every timing. A longer timing is probably a mistake.
const (
	MinInterval = time.Millisecond
	MaxTimeout  = 24 * time.Hour
)

// LeaseMargin returns the part of LeaseTimeout that a leader relies on, or the part of HoldTimeout
// that an owner of records relies on. It allows the rates of two clocks to differ by a factor below
// 10/9 (protocol.md section 5).
func LeaseMargin(lease time.Duration) time.Duration { return lease / 10 * 9 }

// HoldTimeout returns how long an ack that extends records keeps them for their owner.
// LeaderTimeout plus LeaseTimeout is enough for records to outlast a crash of the leader. The limit
// is TTLTimeout, because a member that was silent for that time loses its records anyway
// (protocol.md section 10).
func (t Timings) HoldTimeout() time.Duration {
	return min(t.LeaseTimeout+t.LeaderTimeout, t.TTLTimeout)
}

// Validate returns all faults, joined. Each is a *fielderr.Error.
func (t Timings) Validate() error {
	var faults fielderr.List
	for _, f := range t.Fields() {
		faults.Check(f.Value >= MinInterval && f.Value <= MaxTimeout, f.Name,
			"%v: must be between %v and %v", f.Value, MinInterval, MaxTimeout)
	}
	// A follower that missed an ack sends again after one and a half intervals.
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
