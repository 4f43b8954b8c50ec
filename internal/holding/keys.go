// SPDX-License-Identifier: Apache-2.0

// Package holding contains the code that the jobs of package election and the mutexes of package
// lock share. It defines the keys of their records, and handles an owned record even if the outcome
// of a commit is unknown. Held serves libraries that lock and unlock in separate calls.
package holding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// Prefix is the prefix of the keys of all jobs and locks.
const Prefix = "latch/"

// JobPrefix returns the prefix of the keys of a job, or an error if its name is invalid. A name
// contains no slash, so no prefix is the beginning of another prefix.
func JobPrefix(job string) (string, error) {
	prefix := Prefix + job + "/"
	if job == "" || strings.Contains(job, "/") || !member.IsKey(prefix+"leader") {
		return "", fmt.Errorf("the job name %.300q must be 1 to %d bytes, printable and without a slash",
			job, member.MaxKeyBytes-len(Prefix+"/leader"))
	}
	return prefix, nil
}

// LeaderKey returns the key of the record that the leader of a job owns.
func LeaderKey(job string) (string, error) {
	prefix, err := JobPrefix(job)
	return prefix + "leader", err
}

// LockKey returns the key of the record that the holder of a lock of a job owns.
func LockKey(job, name string) (string, error) { return namedKey(job, "latch/", name, "") }

// PermitKeys returns the keys of the records that the holders of a semaphore's permits own. key is
// the LockKey of the semaphore.
func PermitKeys(key string, permits int) []string {
	if permits == 1 {
		return []string{key} // a fair mutex excludes the lock of its name
	}
	keys := make([]string, permits)
	for i := range keys {
		keys[i] = fmt.Sprint(key, "/", i)
	}
	return keys
}

// QueueKey returns the key of the record that a caller owns while it waits for a lock of a job.
func QueueKey(job, name, caller string) (string, error) {
	return namedKey(job, "queue/", name, "/"+caller)
}

// BarrierKey returns the key of the record that a caller owns at a barrier of a job.
func BarrierKey(job, name, caller string) (string, error) {
	return namedKey(job, "barrier/", name, "/"+caller)
}

// DisabledKey returns the key of the record that exists while a member may not lead a job.
func DisabledKey(job, id string) (string, error) { return namedKey(job, "disabled/", id, "") }

// HostKey returns the key of the record that exists while the members of a host may not lead a
// job.
func HostKey(job, host string) (string, error) {
	if !(member.Address{Host: host, Port: 1}).IsValid() {
		return "", fmt.Errorf("the host %.300q must be a host name or an IP address, without a port",
			host)
	}
	return namedKey(job, "host/", host, "")
}

// IsOnHost reports whether id is the address of a member on the host.
func IsOnHost(id, host string) bool {
	a, err := member.ParseAddress(id)
	return err == nil && a.Host == host
}

// disablingKeys returns the keys of the records that keep a member from leading. prefix is the
// JobPrefix of the job. If DisabledKey is valid, the key of the host is also valid, because it is
// shorter.
func disablingKeys(prefix, id string) []string {
	keys := []string{prefix + "disabled/" + id}
	if a, err := member.ParseAddress(id); err == nil {
		keys = append(keys, prefix+"host/"+a.Host)
	}
	return keys
}

// IsDisabled reports whether a member may not lead. The list is sorted by key.
func IsDisabled(list []member.Record, prefix, id string) bool {
	return slices.ContainsFunc(disablingKeys(prefix, id), func(key string) bool {
		_, exists := Find(list, key)
		return exists
	})
}

// EnabledOps returns the conditions under which a member may lead.
func EnabledOps(prefix, id string) (ops []record.Op) {
	for _, key := range disablingKeys(prefix, id) {
		ops = append(ops, record.Op{Kind: record.Absent, Key: key})
	}
	return ops
}

// namedKey returns the key of a record of a job, which ends with the name and a suffix.
func namedKey(job, kind, name, suffix string) (string, error) {
	prefix, err := JobPrefix(job)
	if err != nil {
		return "", err
	}
	key := prefix + kind + name + suffix
	if name == "" || !member.IsKey(key) {
		return "", fmt.Errorf("the name %.300q must be 1 to %d bytes and printable", name,
			member.MaxKeyBytes-len(prefix)-len(kind)-len(suffix))
	}
	return key, nil
}

// Find returns the record under key in a list that is sorted by key, as record.Store lists it.
func Find(list []member.Record, key string) (member.Record, bool) {
	i, ok := slices.BinarySearchFunc(list, key, func(e member.Record, key string) int {
		return strings.Compare(e.Key, key)
	})
	if !ok {
		return member.Record{}, false
	}
	return list[i], true
}
