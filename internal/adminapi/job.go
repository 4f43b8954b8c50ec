// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"time"
)

// Job is one of those that have a leader of their own, or latches (package latch).
type Job struct {
	Name string `json:"name"`
	// Leader is null where nobody leads the job.
	Leader *Holder `json:"leader"`
	// Disabled are the members that may not lead it.
	Disabled []Candidate `json:"disabled"`
	// Latches are those that somebody holds.
	Latches []Latch `json:"latches"`
	// Known is false while there is no leader with authority, as far as the node that
	// answers knows, which is since UnknownSince. The rest is then what it learned last: the
	// job may be led by another member meanwhile, or by none.
	Known        bool       `json:"known"`
	UnknownSince *time.Time `json:"unknown_since"`
}

// Candidate is a member that may or may not lead a job. Name is empty where it is no
// member at the moment.
type Candidate struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// Holder is the member that leads a job or holds a latch, itself or for who asked it.
type Holder struct {
	Name    string      `json:"name"` // empty where it is no member any more
	Address string      `json:"address"`
	Token   RecordToken `json:"token"`
}

// Latch is a latch of a job, and who holds it.
type Latch struct {
	Name   string `json:"name"`
	Holder Holder `json:"holder"`
}

// CandidateRequest is the body of POST /v1/jobs/JOB/enable and disable: the address or
// the name of a member.
type CandidateRequest struct {
	Member string `json:"member"`
}
