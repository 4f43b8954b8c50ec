// SPDX-License-Identifier: Apache-2.0

package diagnosis

import "github.com/athena-go/athena/statemachine"

// Cause is the reason why a leader was lost. Package cluster documents each cause.
type Cause string

// The causes. The machine reports all causes except CauseStart and CauseRaised.
const (
	CauseStart     Cause = "start"
	CauseCrash     Cause = "crash"
	CauseSilence   Cause = "silence"
	CauseReplaced  Cause = "replaced"
	CauseHandOver  Cause = "hand-over"
	CauseLeaseLost Cause = "lease lost"
	CauseConflict  Cause = "conflict"
	CauseOutvoted  Cause = "outvoted"
	CauseRaised    Cause = "raised"
)

var everyCause = []Cause{
	CauseStart, CauseCrash, CauseSilence, CauseReplaced, CauseHandOver, CauseLeaseLost,
	CauseConflict, CauseOutvoted, CauseRaised,
}

// The rules that decide a conflict; cluster.Election documents them.
const (
	ruleChosen  = "chosen"
	ruleVersion = "version"
	ruleAddress = "address"
)

var everyRule = []string{ruleChosen, ruleVersion, ruleAddress}

// causes maps the causes of the machine to their names, and to their rules if they are conflicts.
var causes = [statemachine.Causes]struct {
	cause Cause
	rule  string
}{
	statemachine.CauseCrash:    {CauseCrash, ""},
	statemachine.CauseSilence:  {CauseSilence, ""},
	statemachine.CauseReplaced: {CauseReplaced, ""},
	statemachine.CauseHandOver: {CauseHandOver, ""},
	statemachine.CauseLease:    {CauseLeaseLost, ""},
	statemachine.CauseOutvoted: {CauseOutvoted, ""},
	statemachine.CauseChosen:   {CauseConflict, ruleChosen},
	statemachine.CauseVersion:  {CauseConflict, ruleVersion},
	statemachine.CauseAddress:  {CauseConflict, ruleAddress},
}
