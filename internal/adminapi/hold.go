// SPDX-License-Identifier: Apache-2.0

package adminapi

// The types of the events for a caller that takes part in a lock, a job or a group.
const (
	EventWaiting = "waiting" // data Waiting: the caller waits for the lock
	EventHeld    = "held"    // data Grant: the node holds the lock, or leads, for this caller
	EventAlive   = "alive"   // data Trust: the node still holds the lock or leads
	// EventLost has the data ErrorBody: the lock or leadership was lost, or not acquired. It also ends
	// every stream whose credentials are no longer valid.
	EventLost = "lost"
)

// LockRequest is the body of POST /v1/jobs/JOB/lock.
type LockRequest struct {
	Latch string `json:"latch"`
	// Permits is the number of callers that hold the lock together, in the order of their requests. 0
	// means one.
	Permits int `json:"permits,omitempty"`
}

// GroupRequest is the body of POST /v1/groups/GROUP/elect. The durations are named like the fields
// of election.Timing and election.Options. 0 means the default.
type GroupRequest struct {
	Strategy   string  `json:"strategy"` // quorum, lowest, static or standby
	GraceMS    float64 `json:"grace_ms,omitempty"`
	SampleMS   float64 `json:"sample_ms,omitempty"`
	AliveMS    float64 `json:"alive_ms,omitempty"`
	CampaignMS float64 `json:"campaign_ms,omitempty"`
	HoldMS     float64 `json:"hold_ms,omitempty"`
	RetryForMS float64 `json:"retry_for_ms,omitempty"`
}

// Waiting is the data of an EventWaiting.
type Waiting struct {
	// Holder is null if the lock or a permit is free. Of several holders, it is the one that has held
	// its permit longest.
	Holder   *Holder `json:"holder"`
	NoLeader string  `json:"no_leader"` // as in Status: without a leader no caller gets the lock
}

// Grant is the data of an EventHeld.
type Grant struct {
	Token     RecordToken `json:"token"`
	TrustedMS float64     `json:"trusted_ms"` // see Trust
}

// Trust is the data of an EventAlive: how long the caller may rely on the lock or job if no further
// EventAlive arrives.
type Trust struct {
	TrustedMS float64 `json:"trusted_ms"`
}

// JobLeader is the data of an EventLeader of a job or group.
type JobLeader struct {
	// Leader is null if there is no leader.
	Leader *Holder `json:"leader"`
}
