// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
)

// TestTimings checks the value of each derived timing in a local network.
func TestTimings(t *testing.T) {
	const ms = time.Millisecond
	lan := newTiming(message.Timings{
		HeartbeatInterval: 100 * ms, HeartbeatTimeout: 400 * ms, LeaderTimeout: 1000 * ms,
		LeaseTimeout: 900 * ms, TTLTimeout: 10000 * ms, RetryInterval: 500 * ms,
	}, message.Timings{})
	for _, tc := range []struct {
		name      string
		got, want time.Duration
	}{
		{"roundJitter", lan.roundJitter(), 125 * ms},
		{"longestRound", lan.longestRound(), 625 * ms},
		{"widenTimeout", lan.widenTimeout(), 250 * ms},
		{"turnTimeout of the greatest seed", lan.turnTimeout(0, 10), 250 * ms},
		{"turnTimeout of the second", lan.turnTimeout(1, 10), 250 * ms},
		{"turnTimeout of the fourth", lan.turnTimeout(3, 10), 750 * ms},
		{"turnTimeout of the fourth of many", lan.turnTimeout(3, 100), 450 * ms},
		{"answerLifetime", lan.answerLifetime(), 1125 * ms},
		{"namedLeaderTimeout", lan.namedLeaderTimeout(), 1000 * ms},
		{"declareTimeout without a state", lan.declareTimeout(false), 10000 * ms},
		{"declareTimeout with a state", lan.declareTimeout(true), 30000 * ms},
		{"gatherTimeout", lan.gatherTimeout(), 50 * ms},
		{"stateInterval, 5 members", lan.stateInterval(5), 50 * ms},
		{"stateInterval, 100 members", lan.stateInterval(100), 500 * ms},
		{"waitingTimeout", lan.waitingTimeout(), 1000 * ms},
		{"unaskedTimeout", lan.unaskedTimeout(), 150 * ms},
		{"answerInterval", lan.answerInterval(), 75 * ms},
		{"aloneInterval", lan.aloneInterval(), 450 * ms},
		{"leaseMargin", lan.leaseMargin(), 810 * ms},
		{"holdMargin", lan.holdMargin(0), 1710 * ms},
		{"onlyExtenderTimeout", lan.onlyExtenderTimeout(), 1000 * ms},
		{"voteTimeout at first", lan.voteTimeout(0), 100 * ms},
		{"voteTimeout after many failures", lan.voteTimeout(9), 500 * ms},
		{"againTimeout of the third voter", lan.againTimeout(2, 3), 150 * ms},
		{"againTimeout of the last of many", lan.againTimeout(49, 4), 800 * ms},
		{"againJitter", lan.againJitter(3), 150 * ms},
		{"inquiryTurn of the third voter", lan.inquiryTurn(2), 10 * ms},
		{"endedTurn", lan.endedTurn(), 5 * ms},
		{"successorTimeout", lan.successorTimeout(), 200 * ms},
		{"handOverInterval", lan.handOverInterval(), 50 * ms},
		{"drainedTimeout", lan.drainedTimeout(), 2000 * ms},
		{"probeTimeout", lan.probeTimeout(), 110 * ms},
		{"probeInterval", lan.probeInterval(), 25 * ms},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}

// TestTimingsFit checks that the relations in the comments of the timings hold for all valid
// configurations.
func TestTimingsFit(t *testing.T) {
	for _, ts := range []message.Timings{
		{HeartbeatInterval: 20, HeartbeatTimeout: 40, LeaderTimeout: 80, LeaseTimeout: 70,
			TTLTimeout: 80, RetryInterval: 10},
		{HeartbeatInterval: 10000, HeartbeatTimeout: 30000, LeaderTimeout: 90000,
			LeaseTimeout: 90000, TTLTimeout: 90000, RetryInterval: 5000},
	} {
		d := newTiming(message.Timings{
			HeartbeatInterval: ts.HeartbeatInterval * time.Millisecond,
			HeartbeatTimeout:  ts.HeartbeatTimeout * time.Millisecond,
			LeaderTimeout:     ts.LeaderTimeout * time.Millisecond,
			LeaseTimeout:      ts.LeaseTimeout * time.Millisecond,
			TTLTimeout:        ts.TTLTimeout * time.Millisecond,
			RetryInterval:     ts.RetryInterval * time.Millisecond,
		}, message.Timings{})
		if err := d.Validate(); err != nil {
			t.Fatal(err)
		}
		for name, ok := range map[string]bool{
			"waitingTimeout > longestRound":       d.waitingTimeout() > d.longestRound(),
			"unaskedTimeout > HeartbeatInterval":  d.unaskedTimeout() > d.HeartbeatInterval,
			"unaskedTimeout < HeartbeatTimeout":   d.unaskedTimeout() < d.HeartbeatTimeout,
			"answerInterval < HeartbeatInterval":  d.answerInterval() < d.HeartbeatInterval,
			"aloneInterval < leaseMargin":         d.aloneInterval() < d.leaseMargin(),
			"turns of a minority <= TTLTimeout/2": d.turnTimeout(25, 50)-d.widenTimeout() <= d.TTLTimeout/2,
		} {
			if !ok {
				t.Errorf("%+v: not %s", d, name)
			}
		}
	}
}

// The vote timeout grows with each failure, up to five times HeartbeatInterval (protocol.md 6, 2
// and 7).
func TestVoteTimeoutGrowsWithFailures(t *testing.T) {
	var timing timing
	timing.HeartbeatInterval = time.Second
	for i := range 7 {
		want := time.Duration(min(i, 4)+1) * time.Second
		if got := timing.voteTimeout(i); got != want {
			t.Errorf("after %d failures: got %v, want %v", i, got, want)
		}
	}
}
