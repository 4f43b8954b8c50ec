// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"strings"

	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// JobPrefix begins the keys of the records of all jobs and locks.
const JobPrefix = jobrecord.Prefix

// JobInfo is what the records say of a job.
type JobInfo struct {
	Name     string
	Leader   leader.Holder // zero if no member leads
	Disabled []string      // ids of members that may not lead
	Locks    []HeldLock    // those of the job that are held, by name
}

// HeldLock is a lock of a job (package lock) and its holder.
type HeldLock struct {
	Name   string
	Holder leader.Holder
}

// Jobs returns the jobs that have records, by name. records are those of a record.Store
// under JobPrefix, sorted by key; others among them are left out.
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

// addRecord adds one record of the job. No member may act on a revoked one.
func (i *JobInfo) addRecord(key string, r member.Record) {
	kind, name, _ := strings.Cut(key, "/")
	holder := leader.Holder{ID: string(r.Value), Token: r.Token}
	switch {
	case kind == "disabled":
		i.Disabled = append(i.Disabled, name)
	case r.Revoked:
	case key == "leader":
		i.Leader = holder
	case kind == "latch":
		i.Locks = append(i.Locks, HeldLock{name, holder})
	}
}

// JobKey returns the key of the record that the leader of a job owns. The error says that no
// job can have the name.
func JobKey(job string) (string, error) {
	key, err := jobrecord.Leader(job)
	if err != nil {
		return "", fmt.Errorf("election: %w", err)
	}
	return key, nil
}
