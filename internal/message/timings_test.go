// SPDX-License-Identifier: Apache-2.0

package message_test

import (
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
)

const ms = time.Millisecond

func lan() message.Timings {
	return message.Timings{
		HeartbeatInterval: 100 * ms,
		HeartbeatTimeout:  400 * ms,
		LeaderTimeout:     time.Second,
		LeaseTimeout:      time.Second,
		TTLTimeout:        10 * time.Second,
		RetryInterval:     500 * ms,
	}
}

// TestValidateTimings checks each bound of protocol.md section 1, at its limit and one step
// beyond.
func TestValidateTimings(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*message.Timings)
		want   string // part of the error; empty for no error
	}{
		{"the LAN profile", func(*message.Timings) {}, ""},
		{"interval at half the timeout", func(v *message.Timings) {
			v.HeartbeatTimeout = 2 * v.HeartbeatInterval
		}, ""},
		{"interval above half the timeout", func(v *message.Timings) {
			v.HeartbeatTimeout = 2*v.HeartbeatInterval - 1
		}, "HeartbeatInterval 100ms must be at most half of HeartbeatTimeout 199.999999ms"},
		{"all timeouts equal", func(v *message.Timings) {
			v.HeartbeatTimeout, v.TTLTimeout = v.LeaderTimeout, v.LeaderTimeout
		}, ""},
		{"leader timeout below the heartbeat timeout", func(v *message.Timings) {
			v.HeartbeatTimeout = v.LeaderTimeout + 1
		}, "HeartbeatTimeout 1.000000001s must be at most LeaderTimeout 1s"},
		{"TTL below the leader timeout", func(v *message.Timings) {
			v.TTLTimeout = v.LeaderTimeout - 1
		}, "LeaderTimeout 1s must be at most TTLTimeout 999.999999ms"},
		{"lease above the leader timeout", func(v *message.Timings) {
			v.LeaseTimeout = v.LeaderTimeout + 1
		}, "at most LeaderTimeout 1s"},
		{"nine tenths of the lease just enough", func(v *message.Timings) {
			v.LeaseTimeout = 340 * ms
		}, ""},
		{"nine tenths of the lease at three intervals", func(v *message.Timings) {
			v.HeartbeatInterval, v.LeaseTimeout = 90*ms, 300*ms
		}, "nine tenths of it must exceed three times HeartbeatInterval 90ms"},
		{"a retry of nothing", func(v *message.Timings) {
			v.RetryInterval = 0
		}, "RetryInterval 0s: must be between 1ms and 24h0m0s"},
		{"the longest TTL", func(v *message.Timings) {
			v.TTLTimeout = message.MaxTimeout
		}, ""},
		{"a TTL too long", func(v *message.Timings) {
			v.TTLTimeout = message.MaxTimeout + 1
		}, "TTLTimeout 24h0m0.000000001s: must be between"},
	} {
		v := lan()
		tc.change(&v)
		err := v.Validate()
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: got %v, want no error", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestValidateNamesEveryFault checks the sentence of protocol.md section 1: "The timings are
// checked together, and one error lists every fault."
func TestValidateNamesEveryFault(t *testing.T) {
	err := message.Timings{HeartbeatInterval: time.Second}.Validate()
	if err == nil {
		t.Fatal("got no error of timings that are nearly all zero")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, field := range []string{
		"HeartbeatTimeout 0s", "LeaderTimeout 0s", "LeaseTimeout 0s", "TTLTimeout 0s", "RetryInterval 0s",
		"HeartbeatInterval 1s must", "nine tenths",
	} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("got %q, want a line on %q", lines, field)
		}
	}
}

// TestLeaseMargin checks the "0.9 x LeaseTimeout" of protocol.md section 5, which must never be
// rounded up.
func TestLeaseMargin(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		time.Second: 900 * ms, 250 * ms: 225 * ms, 19 * time.Nanosecond: 9 * time.Nanosecond,
	} {
		if got := message.LeaseMargin(lease); got != want {
			t.Errorf("LeaseMargin(%v): got %v, want %v", lease, got, want)
		}
	}
	if (message.Stamp{Clock: 1}).IsZero() || !(message.Stamp{}).IsZero() {
		t.Error("Stamp.IsZero: want it of the zero stamp alone")
	}
}

func TestHoldTimeout(t *testing.T) {
	for _, tc := range []struct{ lease, leader, ttl, want time.Duration }{
		{1, 1, 10, 2},
		{2, 5, 10, 7},
		{5, 5, 10, 10},
		{4, 9, 12, 12},
		{9, 9, 9, 9},
	} {
		timings := message.Timings{LeaseTimeout: tc.lease, LeaderTimeout: tc.leader, TTLTimeout: tc.ttl}
		if got := timings.HoldTimeout(); got != tc.want {
			t.Errorf("%+v: got %d", tc, got)
		}
	}
}

// TestTwoSetsOfTimings checks that the longer and the shorter of two valid sets are valid, and
// which sets a node can accept together.
func TestTwoSetsOfTimings(t *testing.T) {
	own, other := lan(), lan()
	other.HeartbeatInterval, other.HeartbeatTimeout = 20*ms, 80*ms
	other.LeaseTimeout, other.LeaderTimeout, other.TTLTimeout = 140*ms, 200*ms, 2*time.Second
	if got := own.Longer(other); got != own || got.Validate() != nil {
		t.Errorf("the longer ones: got %+v", got)
	}
	if got := own.Shorter(other); got.LeaseTimeout != 140*ms || got.Validate() != nil {
		t.Errorf("the shorter ones: got %+v", got)
	}
	none := message.Timings{}
	if own.Longer(none) != own || own.Shorter(none) != own || own.ValidateOther(none) != nil {
		t.Error("one set: want it unchanged")
	}
	if err := own.ValidateOther(other); err != nil {
		t.Error(err)
	}
	other.LeaderTimeout = 190 * ms // nine tenths of 330 ms are less than three intervals of 100 ms
	if own.ValidateOther(other) == nil || other.ValidateOther(own) == nil {
		t.Error("a HoldTimeout of 330ms with an interval of 100ms: want an error")
	}
}
