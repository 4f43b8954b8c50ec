// SPDX-License-Identifier: Apache-2.0

package adminapi

// The types of the events of who wants to hold something.
const (
	EventWaiting = "waiting" // Waiting: the node asks for the latch
	EventHeld    = "held"    // Grant: the node holds it, or leads the job, for this caller
	EventAlive   = "alive"   // Trust: it still does
	EventLost    = "lost"    // it does no more, or cannot; an error with its code
)

// LockRequest is the body of POST /v1/jobs/JOB/lock.
type LockRequest struct {
	Latch string `json:"latch"`
}

// Waiting is the data of an EventWaiting.
type Waiting struct {
	// Holder is null where nobody holds the latch.
	Holder *Holder `json:"holder"`
}

// Grant is the data of an EventHeld.
type Grant struct {
	Token     RecordToken `json:"token"`
	TrustedMS float64     `json:"trusted_ms"` // as of Trust
}

// Trust is the data of an EventAlive: how long what is held may be relied on unless
// another sign of life comes.
type Trust struct {
	TrustedMS float64 `json:"trusted_ms"`
}

// JobLeader is the data of an EventLeader of a job.
type JobLeader struct {
	// Leader is null where nobody leads it.
	Leader *Holder `json:"leader"`
}
