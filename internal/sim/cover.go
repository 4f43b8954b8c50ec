// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/statemachine"
)

// A rule of coverage is a decision that can be seen from outside: each reason
// to drop or refuse something, each kind of trace, and what happens around the
// machines.
type rule int

const (
	ruleReasons = rule(0)
	ruleWhats   = rule(message.Reasons)
)

const (
	ruleGreetRefused = ruleWhats + rule(statemachine.TraceKinds) + iota
	ruleSeedsDiffer
	ruleFenced
	rules
)

// String is the name of the rule in tables.
func (r rule) String() string {
	switch {
	case r < ruleWhats:
		return message.Reason(r).String()
	case r < ruleGreetRefused:
		return statemachine.TraceKind(r - ruleWhats).String()
	default:
		return [...]string{"greet refused", "seeds differ", "write fenced"}[r-ruleGreetRefused]
	}
}

// Cover has for each rule the classes of faults that had happened in a run
// when the rule was reached.
type Cover struct {
	by      [rules]Faults
	reached [rules]bool
}

func (c *Cluster) noteReached(r rule) {
	c.cover.by[r] |= c.happened
	c.cover.reached[r] = true
}

func (c *Cluster) reachTrace(t statemachine.Trace) {
	if t.Reason != message.ReasonNone {
		c.noteReached(ruleReasons + rule(t.Reason))
	}
	c.noteReached(ruleWhats + rule(t.Kind))
}

// Table counts runs: in which a rule was reached after a fault of a class, and
// in which it was reached at all.
type Table struct {
	cells [rules][classes]int
	runs  [rules]int
}

func (t *Table) add(c Cover) {
	for r := range rules {
		if c.reached[r] {
			t.runs[r]++
		}
		for i := range classes {
			if c.by[r]&(1<<i) != 0 {
				t.cells[r][i]++
			}
		}
	}
}

// Cell is one place of a Table.
type Cell struct {
	rule  rule
	class Faults
}

// String says what did not happen.
func (c Cell) String() string { return fmt.Sprintf("%v after %v", c.rule, c.class) }

// Empty lists the cells without a run.
func (t Table) Empty() []Cell {
	var empty []Cell
	for r := range rules {
		if r.whyUnreachable() != "" {
			continue
		}
		for i, n := range t.cells[r] {
			if n == 0 {
				empty = append(empty, Cell{r, 1 << i})
			}
		}
	}
	return empty
}

// String is the table: rules down, classes across, by their first letters.
func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %7s", "", "runs")
	for _, name := range faultNames {
		fmt.Fprintf(&b, " %5.5s", strings.ReplaceAll(name, "other ", "o. "))
	}
	b.WriteByte('\n')
	for r := range rules {
		if r.whyUnreachable() != "" {
			continue
		}
		fmt.Fprintf(&b, "%-20v %7d", r, t.runs[r])
		for _, n := range t.cells[r] {
			fmt.Fprintf(&b, " %5d", n)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// whyUnreachable says why a rule is never reached, whatever fails; "" where it is.
func (r rule) whyUnreachable() string {
	switch r {
	case ruleReasons, ruleWhats:
		return "stands for none"
	case rule(message.ReasonOwnAddress), rule(message.ReasonNotAddressed):
		return "guards against a transport that errs"
	case rule(message.ReasonNotCandidate), rule(message.ReasonVersionJump):
		return "guards against a peer that errs"
	case rule(message.ReasonTooLarge), rule(message.ReasonBusy):
		return "guards against a program that asks for too much"
	default:
		return ""
	}
}
