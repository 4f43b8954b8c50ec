// SPDX-License-Identifier: Apache-2.0

package cluster

import "github.com/athena-go/athena/statemachine"

// Cause is why a leader leads no more, or why there was none, as this node knows it:
// other nodes may have learned of it in another way.
type Cause string

// The causes. None is empty.
const (
	// CauseStart: this node started, and had no leader before.
	CauseStart Cause = "start"
	// CauseCrash: the host of the leader refused its port, or a later run of its
	// process was heard.
	CauseCrash Cause = "crash"
	// CauseSilence: nothing came from the leader for LeaderTimeout.
	CauseSilence Cause = "silence"
	// CauseHandOver: the leader was told to leave, to hand over or to drain.
	CauseHandOver Cause = "hand-over"
	// CauseLeaseLost: a majority did not answer the leader within its lease, or its
	// process stood still for so long.
	CauseLeaseLost Cause = "lease lost"
	// CauseConflict: two led, and the better claim won (protocol.md section 7);
	// Election.Rule says by what.
	CauseConflict Cause = "conflict"
	// CauseOutvoted: another leader was elected before this node had missed its own.
	CauseOutvoted Cause = "outvoted"
	// CauseRaised: the same leader had itself elected to a later version, because a
	// member had promised to follow none below it.
	CauseRaised Cause = "raised"
)

// everyCause lists them.
var everyCause = []Cause{
	CauseStart, CauseCrash, CauseSilence, CauseHandOver, CauseLeaseLost, CauseConflict,
	CauseOutvoted, CauseRaised,
}

// everyRule lists the rules of a conflict.
var everyRule = []string{RuleChosen, RuleVersion, RuleAddress}

// Rules of a conflict: what makes one claim better than another.
const (
	RuleChosen  = "chosen"  // one leader was chosen, the other declared itself
	RuleVersion = "version" // the later version
	RuleAddress = "address" // the greater address
)

// causes says what the machine's causes are called here.
var causes = [statemachine.Causes]struct {
	cause Cause
	rule  string
}{
	statemachine.CauseCrash:    {CauseCrash, ""},
	statemachine.CauseSilence:  {CauseSilence, ""},
	statemachine.CauseHandOver: {CauseHandOver, ""},
	statemachine.CauseLease:    {CauseLeaseLost, ""},
	statemachine.CauseOutvoted: {CauseOutvoted, ""},
	statemachine.CauseChosen:   {CauseConflict, RuleChosen},
	statemachine.CauseVersion:  {CauseConflict, RuleVersion},
	statemachine.CauseAddress:  {CauseConflict, RuleAddress},
}
