// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"runtime"
	"strconv"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

// viewFamilies tell what the node is and sees now.
var viewFamilies = []family{
	{"athena_build_info", "Always 1; the labels say which program runs.", gauge,
		[]string{"version", "go", "protocol"}, func(l look, s *sink) {
			s.addValue(1, l.build, runtime.Version(), strconv.Itoa(wire.Version))
		}},
	{"athena_insecure", "1 where the node trusts whoever reaches it.", gauge, nil,
		func(l look, s *sink) { s.addFlag(l.Insecure) }},
	{"athena_drained", "1 while the node lets other members lead, because an operator drained it.",
		gauge, nil, func(l look, s *sink) { s.addFlag(l.Drained) }},
	{"athena_members", "Members of the view, by status.", gauge, []string{"status"}, readMembers},
	{"athena_cluster_size", "Members of the full cluster, as configured.", gauge, nil,
		func(l look, s *sink) { s.addValue(float64(l.Size)) }},
	{"athena_quorum_size", "Members that must agree: more than half of the size.", gauge, nil,
		func(l look, s *sink) { s.addValue(float64(l.Quorum)) }},
	{"athena_has_quorum", "1 while there is a leader with authority, as this node knows.", gauge, nil,
		func(l look, s *sink) { s.addFlag(!l.Token.IsZero()) }},
	{"athena_has_leader", "1 while the node leads or follows, also without authority.", gauge, nil,
		func(l look, s *sink) { s.addFlag(!l.View.Leader.IsZero()) }},
	{"athena_is_leader", "1 while this node leads with authority.", gauge, nil,
		func(l look, s *sink) {
			s.addFlag(!l.Token.IsZero() && l.View.Leader == l.Self.Address && l.LeaseRemaining > 0)
		}},
	{"athena_version", "Version of the view: grows with each leader.", gauge, nil,
		func(l look, s *sink) { s.addCount(l.View.Version) }},
	{"athena_revision", "Revision of the view: grows with each change of members.", gauge, nil,
		func(l look, s *sink) { s.addCount(l.View.Revision) }},
	{"athena_token", "Fencing token of the leader with authority, 0 without one.", gauge, nil,
		func(l look, s *sink) { s.addCount(l.Token.Version) }},
	{"athena_lease_remaining_seconds", "How long this node keeps authority unless it is extended.",
		gauge, nil, func(l look, s *sink) { s.addValue(l.LeaseRemaining.Seconds()) }},
}

func readMembers(l look, s *sink) {
	var counts [member.Removed + 1]int
	for _, m := range l.View.Members {
		counts[m.Shown()]++
	}
	for status := member.Joining; status <= member.Removed; status++ {
		s.addValue(float64(counts[status]), status.String())
	}
}

// electionFamilies tell of changes of leader.
var electionFamilies = []family{
	{"athena_leader_changes_total", "Changes of leader that this node saw, by cause.", counter,
		[]string{"cause"}, func(l look, s *sink) {
			for cause, n := range l.LeaderChanges {
				s.addCount(n, string(cause))
			}
		}},
	{"athena_elections_total",
		"Elections by how they ended here: won, followed (another leads), failed (to be repeated).",
		counter, []string{"result"}, func(l look, s *sink) {
			for result, n := range l.Counts.Elections {
				s.addCount(n, result)
			}
		}},
	{"athena_election_duration_seconds",
		"How long the node knew no leader with authority at a change of leader, but at its start.",
		buckets, nil, func(l look, s *sink) { s.addDurations(l.Counts.Elected) }},
	{"athena_leaderless_seconds_total", "How long in all the node knew no leader with authority.",
		counter, nil, func(l look, s *sink) { s.addValue(l.Leaderless.Seconds()) }},
	{"athena_proposals_total",
		"Proposals of this node, by stage and result: won, lost, or overtaken by another election.",
		counter, []string{"stage", "result"}, func(l look, s *sink) {
			for p, n := range l.Counts.Proposals {
				s.addCount(n, p.Stage, p.Result)
			}
		}},
	{"athena_votes_total", "Answers of this node to the proposals of others.", counter,
		[]string{"stage", "accept"}, func(l look, s *sink) {
			for v, n := range l.Counts.Votes {
				s.addCount(n, v.Stage, strconv.FormatBool(v.Granted))
			}
		}},
	{"athena_leader_conflicts_total", "Leaders left or given up for a better claim, by its rule.",
		counter, []string{"rule"}, func(l look, s *sink) {
			for rule, n := range l.Counts.Conflicts {
				s.addCount(n, rule)
			}
		}},
	{"athena_clock_steps_total",
		"Steps of the wall clock after which authority and records had to be confirmed.",
		counter, nil, func(l look, s *sink) { s.addCount(l.Counts.ClockSteps) }},
	{"athena_store_sync_seconds", "How long the store took to save.", buckets, nil,
		func(l look, s *sink) { s.addDurations(l.Counts.Saved) }},
}

// groupFamilies tell of the groups that the program has opened (package election).
var groupFamilies = []family{
	{"athena_group_leader", "1 while this node leads the group, for each group that its program " +
		"has open.", gauge, []string{"group"}, func(l look, s *sink) {
		for _, g := range l.groups {
			s.addFlag(g.Candidate.IsLeader(), g.Name)
		}
	}},
}
