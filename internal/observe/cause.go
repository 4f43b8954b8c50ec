// SPDX-License-Identifier: Apache-2.0

package observe

import "github.com/athena-go/athena/statemachine"

// Cause is why a leader was lost. Package cluster describes each.
type Cause string

// The causes. Start and raised are of this package; the machine knows the others.
const (
	CauseStart     Cause = "start"
	CauseCrash     Cause = "crash"
	CauseSilence   Cause = "silence"
	CauseHandOver  Cause = "hand-over"
	CauseLeaseLost Cause = "lease lost"
	CauseConflict  Cause = "conflict"
	CauseOutvoted  Cause = "outvoted"
	CauseRaised    Cause = "raised"
)

// everyCause lists the causes.
var everyCause = []Cause{
	CauseStart, CauseCrash, CauseSilence, CauseHandOver, CauseLeaseLost, CauseConflict,
	CauseOutvoted, CauseRaised,
}

// The rules of a conflict: what makes one claim better than another.
const (
	ruleChosen  = "chosen"  // one leader was chosen, the other declared itself
	ruleVersion = "version" // the later version
	ruleAddress = "address" // the greater address
)

var everyRule = []string{ruleChosen, ruleVersion, ruleAddress}

// causes has the name of each cause of the machine, and the rule of a conflict.
var causes = [statemachine.Causes]struct {
	cause Cause
	rule  string
}{
	statemachine.CauseCrash:    {CauseCrash, ""},
	statemachine.CauseSilence:  {CauseSilence, ""},
	statemachine.CauseHandOver: {CauseHandOver, ""},
	statemachine.CauseLease:    {CauseLeaseLost, ""},
	statemachine.CauseOutvoted: {CauseOutvoted, ""},
	statemachine.CauseChosen:   {CauseConflict, ruleChosen},
	statemachine.CauseVersion:  {CauseConflict, ruleVersion},
	statemachine.CauseAddress:  {CauseConflict, ruleAddress},
}
