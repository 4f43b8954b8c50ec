// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

// drilled returns the status of n2, a follower of n1 with the given version. The run of n1 has the
// given incarnation and status. If version is 0, there is no leader.
func drilled(version, incarnation uint64, status member.Status) adminapi.Status {
	n1 := adminapi.Member{Name: "n1", Address: member.Address{Host: "h", Port: 1}, Status: status,
		Incarnation: incarnation}
	n2 := adminapi.Member{Name: "n2", Address: member.Address{Host: "h", Port: 2}, Incarnation: 7,
		Status: member.Active}
	s := adminapi.Status{Token: version}
	s.View = adminapi.View{Version: version, Members: []adminapi.Member{n1, n2}}
	if version > 0 {
		s.View.Leader = n1.Address
	}
	return s
}

// elected returns the same status, after an election that n2 saw.
func elected(s adminapi.Status, leader int, steps ...adminapi.Step) adminapi.Status {
	s.View.Leader = s.View.Members[leader-1].Address
	s.LastElection = &adminapi.Election{Version: s.View.Version, Leader: s.View.Leader, Steps: steps}
	return s
}

type drillStep struct {
	ms int
	s  adminapi.Status
}

// TestDrillCountsTheTimeWithoutALeader checks what a drill of n1, the leader, makes of what another
// member shows: the time for which n1 still led does not count, and a member that was not killed is
// never reported as killed, whatever happens to the leader.
func TestDrillCountsTheTimeWithoutALeader(t *testing.T) {
	runs := drilled(3, 5, member.Active)
	none, next := drilled(0, 5, member.Active), drilled(4, 5, member.Unreachable)
	heard := []adminapi.Step{{Name: "heard"}, {Name: "lost", AfterMS: 640},
		{Name: "quorate", AfterMS: 700}}
	for _, c := range []struct {
		name  string
		steps []drillStep
		want  time.Duration // without a leader; 0 if n1 was not killed
		over  bool
		fails string
	}{
		{"nothing happens", []drillStep{{10, runs}, {900, runs}}, 0, false, "did not stop"},
		{"another leader, for another reason", []drillStep{{26_800, runs}, {26_810, none},
			{26_886, elected(drilled(4, 5, member.Active), 2)}}, 0, false, "did not stop"},
		{"cut off for a while", []drillStep{{500, runs}, {900, elected(next, 2)},
			{2000, elected(drilled(4, 5, member.Active), 2)}}, 0, false, "did not stop"},
		{"killed late", []drillStep{{26_800, runs}, {26_810, none}, {26_886, elected(next, 2)},
			{30_000, elected(drilled(4, 9, member.Active), 2)}}, 86 * time.Millisecond, true, ""},
		{"killed silently", []drillStep{{26_800, runs}, {26_810, none},
			{26_886, elected(next, 2, heard...)}, {30_000, elected(drilled(4, 9, member.Active), 2)}},
			700 * time.Millisecond, true, ""},
		{"handed over between two observations", []drillStep{{100, runs}, {110, elected(next, 2)}},
			10 * time.Millisecond, false, ""},
		{"no other leader", []drillStep{{100, runs}, {110, none},
			{2000, drilled(0, 5, member.Unreachable)}}, 1900 * time.Millisecond, false, "no leader"},
		{"too long", []drillStep{{100, runs}, {110, none}, {2900, elected(next, 2)}},
			2800 * time.Millisecond, false, "2.8s without a leader"},
	} {
		w := newDrillWatch(elected(runs, 1, heard...), runs.View.Members[0])
		for _, step := range c.steps {
			w.observe(step.s, time.Duration(step.ms)*time.Millisecond)
		}
		r, err := w.judge(2*time.Second, time.Minute)
		if r.Failed != nil {
			err = r.Failed
		}
		result, killed := r.Answer.(drillResult)
		got := adminapi.DurationOf(result.LeaderlessMS)
		if killed != (c.want > 0) || killed != (r.Table != nil) || got != c.want ||
			w.isOver() != c.over || (err == nil) != (c.fails == "") ||
			err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: killed %t, %v without a leader, over %t, %v; want %v, %t, %q",
				c.name, killed, got, w.isOver(), err, c.want, c.over, c.fails)
		}
	}
}
