// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"maps"
	"slices"
	"strings"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/member"
)

// maxJobs is the maximum number of jobs, and of locks, that have samples. Clients choose the names.
const maxJobs = 100

// jobFamilies are the metrics of records, jobs and locks.
var jobFamilies = []family{
	{"athena_records", "Records by kind. Absent without a leader with authority.", gauge,
		[]string{"kind"}, readRecords},
	{"athena_records_used_ratio",
		"Part of the limit of records, or of their bytes if that is greater, in use.",
		gauge, nil, func(l snapshot, s *sink) {
			bytes := 0
			for i := range l.records {
				bytes += l.records[i].Bytes()
			}
			if !l.Token.IsZero() {
				s.addValue(max(float64(len(l.records))/member.MaxRecords,
					float64(bytes)/member.MaxRecordsBytes))
			}
		}},
	{"athena_job_has_leader",
		"1 while the job has a leader, 0 while callers of this node wait for it, or a member is " +
			"disabled for it.", gauge, []string{"name"}, readJobs},
	{"athena_lock_wait_seconds",
		"Longest time for which a caller of this node has waited for the lock.", gauge,
		[]string{"name"}, func(l snapshot, s *sink) {
			for _, name := range slices.Sorted(maps.Keys(l.waits))[:min(len(l.waits), maxJobs)] {
				s.addValue(l.waits[name].Seconds(), name)
			}
		}},
}

// recordKinds are the values of the label kind, by the part of the key after the job.
var recordKinds = map[string]string{
	"leader": "job", "latch": "lock", "queue": "waiting", "disabled": "disabled", "host": "disabled",
}

// splitKey returns the job that a record belongs to, and the kind of the record.
func splitKey(key string) (job, kind string) {
	rest, ok := strings.CutPrefix(key, holding.Prefix)
	job, rest, _ = strings.Cut(rest, "/")
	part, _, _ := strings.Cut(rest, "/")
	if kind = recordKinds[part]; !ok || job == "" || kind == "" {
		return "", "other"
	}
	return job, kind
}

func readRecords(l snapshot, s *sink) {
	if l.Token.IsZero() {
		return
	}
	counts := map[string]int{"other": 0}
	for _, kind := range recordKinds {
		counts[kind] = 0
	}
	for _, r := range l.records {
		_, kind := splitKey(r.Key)
		counts[kind]++
	}
	for kind, n := range counts {
		s.addValue(float64(n), kind)
	}
}

// readJobs adds the jobs that have a leader, and those that should have one. Without a leader with
// authority it adds none, because the node cannot know.
func readJobs(l snapshot, s *sink) {
	if l.Token.IsZero() {
		return
	}
	led := map[string]bool{}
	for _, job := range l.wanted {
		led[job] = false
	}
	for _, r := range l.records {
		switch job, kind := splitKey(r.Key); kind {
		case "job":
			led[job] = !r.Revoked
		case "disabled":
			// The record of the leader may come before or after this one.
			if _, known := led[job]; !known {
				led[job] = false
			}
		}
	}
	for _, job := range slices.Sorted(maps.Keys(led))[:min(len(led), maxJobs)] {
		s.addFlag(led[job], job)
	}
}
