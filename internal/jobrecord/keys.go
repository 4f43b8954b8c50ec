// SPDX-License-Identifier: Apache-2.0

// Package jobrecord has what jobs (package election) and mutexes (package lock) have in
// common: the keys of their records, and the care for one owned record whose commits may
// have an unknown outcome.
package jobrecord

import (
	"fmt"
	"strings"

	"github.com/athena-go/athena/member"
)

// Prefix begins the keys of all records of jobs and mutexes.
const Prefix = "latch/"

// JobPrefix returns what the keys of all records of a job begin with. The name of a job has
// no slash, so no job's keys begin as another's. The error says that no job can have the
// name.
func JobPrefix(job string) (string, error) {
	prefix := Prefix + job + "/"
	if job == "" || strings.Contains(job, "/") || !member.IsKey(prefix+"leader") {
		return "", fmt.Errorf("the job %q: want a name that is printable, without /, and of at "+
			"most %d bytes", job, member.MaxKeyBytes-len(Prefix+"/leader"))
	}
	return prefix, nil
}

// Leader returns the key of the record that the leader of a job owns.
func Leader(job string) (string, error) {
	prefix, err := JobPrefix(job)
	return prefix + "leader", err
}

// Lock returns the key of the record that the holder of a mutex of a job owns.
func Lock(job, name string) (string, error) { return named(job, "latch/", name) }

// Disabled returns the key of the record that is there while a member may not lead a job.
func Disabled(job, id string) (string, error) { return named(job, "disabled/", id) }

func named(job, kind, name string) (string, error) {
	prefix, err := JobPrefix(job)
	if err != nil {
		return "", err
	}
	key := prefix + kind + name
	if name == "" || !member.IsKey(key) {
		return "", fmt.Errorf("the name %q: want one that is printable, and of at most %d bytes",
			name, member.MaxKeyBytes-len(prefix)-len(kind))
	}
	return key, nil
}
