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
	// Changes are the last changes that the node has seen, only with ?changes: oldest first, and at
	// most ten of the job and of each lock.
	Changes []JobChange `json:"changes,omitempty"`
}

// JobChange is a change of the holder of a job or lock.
type JobChange struct {
	Time   time.Time `json:"time"`   // when the node learned of it
	Latch  string    `json:"latch"`  // empty for the leader of the job
	Holder *Holder   `json:"holder"` // null if the job or lock became free
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
	// Caller is the text with which the caller of the API has named itself, only with ?callers.
	Caller string `json:"caller,omitempty"`
	// Since is the time since when it holds. It is nil if the node does not know.
	Since *time.Time `json:"since,omitempty"`
}

// Caller is a caller of the API that holds or held a job or lock. Members send it to each other.
type Caller struct {
	Job    string      `json:"job"`
	Latch  string      `json:"latch"` // empty for the leader of the job; without a permit's number
	Token  RecordToken `json:"token"`
	Caller string      `json:"caller"`
	Since  time.Time   `json:"since"`
}

// CallerHeader is the header with which a caller of the API names itself in requests for locks and
// jobs, for MaxCallerBytes at most. It is not part of the body, where earlier versions refuse it.
const (
	CallerHeader   = "Athena-Caller"
	MaxCallerBytes = 100
)

// Latch is a held lock or shard of a job.
type Latch struct {
	Name   string `json:"name"`
	Holder Holder `json:"holder"`
	// Stuck is true for a shard whose work has not returned 5 s after its term ended.
	Stuck bool `json:"stuck"`
}

// CandidateRequest is the body of POST /v1/jobs/JOB/enable and /v1/jobs/JOB/disable. It contains
// either a Member or a Host. Member is an address or a name. Host stands for all members on that
// host.
type CandidateRequest struct {
	Member string `json:"member,omitempty"`
	Host   string `json:"host,omitempty"`
}
