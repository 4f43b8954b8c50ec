// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// Election is a change of leader as the node saw it.
type Election struct {
	// Cause is why there was no leader: one of the constants cluster.Cause...
	Cause cluster.Cause `json:"cause"`
	// Rule is what decided a conflict; empty for other causes.
	Rule    string  `json:"rule,omitempty"`
	Version uint64  `json:"version"`
	TookMS  float64 `json:"took_ms"`
	// Votes are the members of which the node knows that they voted for Leader.
	Votes  []member.Address `json:"votes"`
	Leader member.Address   `json:"leader"`
	// Before is empty where the node followed nobody before.
	Before member.Address `json:"before"`
	Ended  time.Time      `json:"ended"`
	Steps  []Step         `json:"steps"`
}

// Step is one step of an election.
type Step struct {
	Name    string  `json:"name"`     // one of the constants cluster.Step...
	AfterMS float64 `json:"after_ms"` // the first step
}

// ElectionOf returns e as the API shows it.
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
