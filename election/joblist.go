// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"slices"
	"strings"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// JobPrefix is the key prefix of all job and lock records.
const JobPrefix = holding.Prefix

// JobInfo describes a job as its records show it.
type JobInfo struct {
	Name     string
	Leader   leader.Holder // zero if no member leads
	Disabled []string      // ids of the members that may not lead
	Hosts    []string      // hosts whose members may not lead; see EnableHost
	Locks    []HeldLock    // held locks of the job, by name
}

// HeldLock is a held lock (package lock) or a shard of a job.
type HeldLock struct {
	Name   string
	Holder leader.Holder
	// Stuck is set if the lock is a shard whose term ended at least 5 s ago, but whose work has not
	// returned. No other worker can take the shard until then.
	Stuck bool
}

// Jobs returns the jobs that have records, sorted by name. records must contain the records of a
// record.Store under JobPrefix, sorted by key; others are ignored.
func Jobs(records []member.Record) (all []JobInfo) {
	for _, r := range records {
		rest, ok := strings.CutPrefix(r.Key, JobPrefix)
		job, key, hasKey := strings.Cut(rest, "/")
		if !ok || !hasKey || job == "" {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Name != job {
			all = append(all, JobInfo{Name: job})
		}
		all[len(all)-1].addRecord(key, r)
	}
	return all
}

// addRecord adds a record to the description of the job. It ignores revoked records, because no
// member may act on them.
func (i *JobInfo) addRecord(key string, r member.Record) {
	kind, name, _ := strings.Cut(key, "/")
	holder := leader.Holder{ID: string(r.Value), Token: r.Token}
	switch {
	case kind == "disabled":
		i.Disabled = append(i.Disabled, name)
	case kind == "host":
		i.Hosts = append(i.Hosts, name)
	case r.Revoked:
	case key == "leader":
		i.Leader = holder
	case kind == "latch":
		i.Locks = append(i.Locks, HeldLock{Name: name, Holder: holder})
	case kind == "worker": // sorted after the locks
		_, _, stuck := parseWorker(r.Value)
		for n, l := range i.Locks {
			i.Locks[n].Stuck = l.Stuck || l.Holder.ID == name && slices.Contains(stuck, l.Name)
		}
	}
}

// JobKey returns the key of the record that the leader of a job owns, or an error if the name is
// invalid.
func JobKey(job string) (string, error) {
	key, err := holding.LeaderKey(job)
	if err != nil {
		return "", fmt.Errorf("election: %w", err)
	}
	return key, nil
}
