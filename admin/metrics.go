// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"runtime"
	"strconv"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// viewFamilies are the metrics of the node and its view.
var viewFamilies = []family{
	{"athena_build_info", "Always 1; the labels identify the program.", gauge,
		[]string{"version", "go", "protocol"}, func(l snapshot, s *sink) {
			s.addValue(1, l.build, runtime.Version(), strconv.Itoa(message.Protocol))
		}},
	{"athena_insecure", "1 if the node runs without a secret or certificate.", gauge, nil,
		func(l snapshot, s *sink) { s.addFlag(l.Insecure) }},
	{"athena_drained", "1 while the node is drained: it leads only if no other member can.",
		gauge, nil, func(l snapshot, s *sink) { s.addFlag(l.Drained) }},
	{"athena_preference", "Preference of this node; -1 if it never leads.", gauge, nil,
		func(l snapshot, s *sink) { s.addValue(float64(l.Self.Preference)) }},
	{"athena_members", "Members of the view, by status.", gauge, []string{"status"}, readMembers},
	{"athena_cluster_size", "Configured size of the full cluster.", gauge, nil,
		func(l snapshot, s *sink) { s.addValue(float64(l.Size)) }},
	{"athena_quorum_size", "Members in a quorum: more than half of the size.", gauge, nil,
		func(l snapshot, s *sink) { s.addValue(float64(l.Quorum)) }},
	{"athena_has_quorum", "1 while this node knows a leader with authority.", gauge, nil,
		func(l snapshot, s *sink) { s.addFlag(!l.Token.IsZero()) }},
	{"athena_has_leader", "1 while this node leads or follows a leader, even without authority.",
		gauge, nil,
		func(l snapshot, s *sink) { s.addFlag(!l.View.Leader.IsZero()) }},
	{"athena_is_leader", "1 while this node leads with authority.", gauge, nil,
		func(l snapshot, s *sink) {
			s.addFlag(!l.Token.IsZero() && l.View.Leader == l.Self.Address && l.LeaseRemaining > 0)
		}},
	{"athena_version", "Version of the view; grows with each leader.", gauge, nil,
		func(l snapshot, s *sink) { s.addCount(l.View.Version) }},
	{"athena_revision", "Revision of the view; grows with each change of members.", gauge, nil,
		func(l snapshot, s *sink) { s.addCount(l.View.Revision) }},
	{"athena_token",
		"Version of the leader with authority (its fencing token / 10^12); 0 without one.", gauge, nil,
		func(l snapshot, s *sink) { s.addCount(l.Token.Version) }},
	{"athena_lease_remaining_seconds", "Time until the lease of this node ends unless it is renewed.",
		gauge, nil, func(l snapshot, s *sink) { s.addValue(l.LeaseRemaining.Seconds()) }},
}

func readMembers(l snapshot, s *sink) {
	var counts [member.Removed + 1]int
	for _, m := range l.View.Members {
		counts[m.Shown()]++
	}
	for status := member.Joining; status <= member.Removed; status++ {
		s.addValue(float64(counts[status]), status.String())
	}
}

// electionFamilies are the metrics of elections.
var electionFamilies = []family{
	{"athena_leader_changes_total", "Changes of leader, by cause.", counter,
		[]string{"cause"}, func(l snapshot, s *sink) {
			for cause, n := range l.LeaderChanges {
				s.addCount(n, string(cause))
			}
		}},
	{"athena_elections_total",
		"Elections, by result: won, followed (another node leads) or failed (and repeated).",
		counter, []string{"result"}, func(l snapshot, s *sink) {
			for result, n := range l.Counts.Elections {
				s.addCount(n, result)
			}
		}},
	{"athena_election_duration_seconds",
		"Time without a leader with authority at a change of leader, except at the start.",
		buckets, nil, func(l snapshot, s *sink) { s.addDurations(l.Counts.Elected) }},
	{"athena_leaderless_seconds_total", "Total time without a leader with authority.",
		counter, nil, func(l snapshot, s *sink) { s.addValue(l.Leaderless.Seconds()) }},
	{"athena_proposals_total",
		"Proposals of this node, by stage and result: won, lost or overtaken by another election.",
		counter, []string{"stage", "result"}, func(l snapshot, s *sink) {
			for p, n := range l.Counts.Proposals {
				s.addCount(n, p.Stage, p.Result)
			}
		}},
	{"athena_votes_total", "Votes of this node on proposals of other nodes.", counter,
		[]string{"stage", "accept"}, func(l snapshot, s *sink) {
			for v, n := range l.Counts.Votes {
				s.addCount(n, v.Stage, strconv.FormatBool(v.Granted))
			}
		}},
	{"athena_leader_conflicts_total",
		"Conflicts between two leaders that this node resolved, by rule.",
		counter, []string{"rule"}, func(l snapshot, s *sink) {
			for rule, n := range l.Counts.Conflicts {
				s.addCount(n, rule)
			}
		}},
	{"athena_clock_steps_total",
		"Wall-clock steps after which the lease and the records had to be confirmed again.",
		counter, nil, func(l snapshot, s *sink) { s.addCount(l.Counts.ClockSteps) }},
	{"athena_stores_replaced_total",
		"Places of members that this node, as the leader, gave to other stores at their addresses.",
		counter, nil, func(l snapshot, s *sink) { s.addCount(l.Counts.Replaced) }},
	{"athena_restored_copies_total",
		"Data directories that this node found to be earlier copies.",
		counter, nil, func(l snapshot, s *sink) { s.addCount(l.Counts.Copies) }},
	{"athena_store_sync_seconds", "Time taken to save to the store.", buckets, nil,
		func(l snapshot, s *sink) { s.addDurations(l.Counts.Saved) }},
	{"athena_store_pending_seconds",
		"Age of a write to the store in progress or failing; otherwise 0.", gauge, nil,
		func(l snapshot, s *sink) { s.addValue(l.SavePending.Seconds()) }},
}

// groupFamilies are the metrics of the groups of package election.
var groupFamilies = []family{
	{"athena_group_leader", "1 while this node leads the group; one sample for each open group.",
		gauge, []string{"group"}, func(l snapshot, s *sink) {
			for _, g := range l.groups {
				s.addFlag(g.Candidate.IsLeader(), g.Name)
			}
		}},
}
