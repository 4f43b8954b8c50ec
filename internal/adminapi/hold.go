// SPDX-License-Identifier: Apache-2.0

package adminapi

// The types of the events for a caller that waits for or holds a lock or a job.
const (
	EventWaiting = "waiting" // data Waiting: the caller waits for the lock
	EventHeld    = "held"    // data Grant: the node holds the lock, or leads the job, for this caller
	EventAlive   = "alive"   // data Trust: the node still holds the lock or leads the job
	EventLost    = "lost"    // data ErrorBody: the lock or job was lost, or could not be acquired
)

// LockRequest is the body of POST /v1/jobs/JOB/lock.
type LockRequest struct {
	Latch string `json:"latch"`
}

// Waiting is the data of an EventWaiting.
type Waiting struct {
	// Holder is null if the lock is free.
	Holder *Holder `json:"holder"`
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

// JobLeader is the data of an EventLeader of a job.
type JobLeader struct {
	// Leader is null if the job has no leader.
	Leader *Holder `json:"leader"`
}
