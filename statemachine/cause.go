// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"fmt"

	"github.com/athena-go/athena/member"
)

// Cause is why a leader no longer leads, as far as this node knows. It is for people: no
// rule depends on it.
type Cause uint8

// The causes. Those of a conflict are the rules of protocol.md section 7, in their
// order.
const (
	CauseNone     Cause = iota
	CauseCrash          // its host refused its port, or a later run of it was heard
	CauseSilence        // nothing came from it for LeaderTimeout
	CauseHandOver       // an operator made it leave, hand over or drain
	CauseLease          // a majority did not answer it, so its lease ran out
	CauseOutvoted       // another was elected before this node had missed it
	CauseChosen         // conflict: it was provisional, the other one chosen
	CauseVersion        // conflict: the other one has a later version
	CauseAddress        // conflict: the other one has the greater address
	Causes              // is above them all
)

var causeNames = [Causes]string{
	"none", "crash", "silence", "hand-over", "lease lost", "outvoted",
	"conflict: chosen", "conflict: version", "conflict: address",
}

// String is the cause in words.
func (c Cause) String() string {
	if c >= Causes {
		return fmt.Sprintf("Cause(%d)", uint8(c))
	}
	return causeNames[c]
}

// conflictCause is the rule by which better wins against c (protocol.md section 7).
func conflictCause(c, better member.Claim) Cause {
	switch {
	case c.Chosen != better.Chosen:
		return CauseChosen
	case c.Version != better.Version:
		return CauseVersion
	default:
		return CauseAddress
	}
}
