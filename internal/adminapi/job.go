// SPDX-License-Identifier: Apache-2.0

package adminapi

import "time"

// Job is a job that has a leader, disabled members or held locks.
type Job struct {
	Name string `json:"name"`
	// Leader is null if the job has no leader.
	Leader *Holder `json:"leader"`
	// Disabled are the members that may not lead the job.
	Disabled []Candidate `json:"disabled"`
	// DisabledHosts are the hosts whose members may not lead the job.
	DisabledHosts []string `json:"disabled_hosts"`
	// Latches are the held locks.
	Latches []Latch `json:"latches"`
	// Known is false while the node knows no leader with authority. The other fields may then be
	// outdated. UnknownSince is the beginning of that state.
	Known        bool       `json:"known"`
	UnknownSince *time.Time `json:"unknown_since"`
}

// Candidate is a member that is disabled for a job. Name is empty if Address is not currently a
// member.
type Candidate struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// Holder is the member that leads a job or holds a lock, either for itself or for a caller of its
// API.
type Holder struct {
	Name    string      `json:"name"` // empty if it is no longer a member
	Address string      `json:"address"`
	Token   RecordToken `json:"token"`
}

// Latch is a held lock of a job.
type Latch struct {
	Name   string `json:"name"`
	Holder Holder `json:"holder"`
}

// CandidateRequest is the body of POST /v1/jobs/JOB/enable and /v1/jobs/JOB/disable. It contains
// either a Member or a Host. Member is an address or a name. Host stands for all members on that
// host.
type CandidateRequest struct {
	Member string `json:"member,omitempty"`
	Host   string `json:"host,omitempty"`
}
