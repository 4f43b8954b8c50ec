// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"strings"

	"github.com/athena-go/athena/member"
)

// KeyPrefix begins the keys of all records of this package.
const KeyPrefix = "latch/"

// Info is what the records say of a job.
type Info struct {
	Name     string
	Leader   Holder   // zero where nobody leads
	Disabled []string // ids of members that may not lead
	Latches  []Latch  // those that somebody holds, by name
}

// Holder is a member that leads a job, or holds a latch, and its token.
type Holder struct {
	Member string
	Token  member.Token
}

// Latch is a latch that somebody holds.
type Latch struct {
	Name   string
	Holder Holder
}

// Jobs lists the jobs of which there are records, by name. records are those of a Store,
// sorted by key; others among them are left out.
func Jobs(records []member.Record) (all []Info) {
	for _, r := range records {
		rest, ok := strings.CutPrefix(r.Key, KeyPrefix)
		job, key, hasKey := strings.Cut(rest, "/")
		if !ok || !hasKey || job == "" {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Name != job {
			all = append(all, Info{Name: job})
		}
		all[len(all)-1].add(key, r)
	}
	return all
}

// add is one record of a job. A revoked one has nobody who may act on it.
func (i *Info) add(key string, r member.Record) {
	kind, name, _ := strings.Cut(key, "/")
	holder := Holder{string(r.Value), r.Token}
	switch {
	case kind == "disabled":
		i.Disabled = append(i.Disabled, name)
	case r.Revoked:
	case key == "leader":
		i.Leader = holder
	case kind == "latch":
		i.Latches = append(i.Latches, Latch{name, holder})
	}
}

// LeaderKey is the key of the record that the leader of a job owns. The error says that
// no job can have that name.
func LeaderKey(job string) (string, error) {
	k, err := keysOf(job)
	if err != nil {
		return "", err
	}
	return k.leader(), nil
}

// Key is the key of the record that the holder of a latch owns. The error says that
// no job, or no latch, can have that name.
func Key(job, latch string) (string, error) {
	k, err := keysOf(job)
	if err != nil {
		return "", err
	}
	return k.latch(latch)
}
