// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"log/slog"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
)

// TestLeaderlessFromTheEndOfAuthority checks from when a node counts the time without a leader. The
// authority of the leader ends 1 s after the last turn that showed it.
func TestLeaderlessFromTheEndOfAuthority(t *testing.T) {
	second := func(n float64) time.Time { return time.Unix(100, int64(n*1e9)) }
	leader := at(1, 0).Address
	leads := member.View{Leader: leader, Version: 1, Quorate: true}
	type turn struct {
		began, now float64
		view       member.View
	}
	for _, c := range []struct {
		name  string
		turns []turn
		want  float64 // seconds without a leader at second 10
	}{
		{"turns in time", []turn{{0.9, 0.9, leads}, {1.8, 1.8, leads}}, 0},
		{"lost in time", []turn{{1, 1, member.View{}}}, 9},
		{"lost early", []turn{{0.5, 0.5, member.View{}}}, 9.5},
		{"paused, then none", []turn{{8, 8, member.View{}}}, 9},
		{"paused, then a leader later", []turn{{8, 8, member.View{}}, {9, 9, leads}}, 8},
		{"paused, then a leader at once", []turn{{8, 8, leads}}, 7},
		{"paused twice", []turn{{3, 3, leads}, {7, 7, leads}}, 5},
		{"a slow save", []turn{{0.5, 6, leads}, {6, 6, leads}}, 4.5},
	} {
		o := New(Config{Log: slog.New(slog.DiscardHandler)})
		o.Start(second(0))
		for _, next := range append([]turn{{0, 0, leads}}, c.turns...) {
			now := Turn{Began: second(next.began), Now: second(next.now), State: State{View: next.view}}
			if next.view.Quorate {
				now.State.Leader, now.QuorateUntil = Leader{leader, 1}, second(next.began+1)
			}
			o.Observe(now)
		}
		if got := o.ReadReport(second(10), State{}).Leaderless.Seconds(); got != c.want {
			t.Errorf("%s: got %v s without a leader, want %v s", c.name, got, c.want)
		}
	}
}
