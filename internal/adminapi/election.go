// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// Election is a change of leader as observed by the node.
type Election struct {
	// Cause is the reason for the change, one of the constants cluster.Cause...
	Cause cluster.Cause `json:"cause"`
	// Rule is the rule that decided a conflict between leaders. It is empty if Cause is not a
	// conflict.
	Rule    string  `json:"rule,omitempty"`
	Version uint64  `json:"version"`
	TookMS  float64 `json:"took_ms"`
	// Votes lists the known voters for Leader.
	Votes  []member.Address `json:"votes"`
	Leader member.Address   `json:"leader"`
	// Before is the previous leader. It is empty if the node followed no leader.
	Before member.Address `json:"before"`
	Ended  time.Time      `json:"ended"`
	Steps  []Step         `json:"steps"`
}

// Step is one step of an election.
type Step struct {
	Name    string  `json:"name"`     // one of the constants cluster.Step...
	AfterMS float64 `json:"after_ms"` // time since the first step
}

// ElectionOf converts e.
func ElectionOf(e cluster.Election) Election {
	out := Election{
		Cause:   e.Cause,
		Rule:    e.Rule,
		Version: e.Version,
		TookMS:  Milliseconds(e.Took),
		Votes:   append([]member.Address{}, e.Voters...),
		Leader:  e.Leader,
		Before:  e.Before,
		Ended:   e.Ended,
		Steps:   make([]Step, 0, len(e.Steps)),
	}
	for _, s := range e.Steps {
		out.Steps = append(out.Steps, Step{s.Name, Milliseconds(s.After)})
	}
	return out
}
