// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/statemachine"
)

// A rule is an observable decision that the coverage table counts: each reason to drop or
// refuse a message, each kind of trace, and a few events outside the machines.
type rule int

const (
	ruleReasons = rule(0)
	ruleTraces  = rule(message.Reasons)
)

const (
	ruleGreetRefused = ruleTraces + rule(statemachine.TraceKinds) + iota
	ruleSeedsDiffer
	ruleFenced
	ruleClaimRefused
	ruleWorkerTrusts
	rules
)

// String returns the name of the rule in tables.
func (r rule) String() string {
	switch {
	case r < ruleTraces:
		return message.Reason(r).String()
	case r < ruleGreetRefused:
		return statemachine.TraceKind(r - ruleTraces).String()
	default:
		return [...]string{
			"greet refused", "seeds differ", "write fenced", "claim refused", "worker trusts",
		}[r-ruleGreetRefused]
	}
}

// Cover records, for each rule, the classes of faults that had happened before the rule was
// reached.
type Cover struct {
	by      [rules]Faults
	reached [rules]bool
}

func (c *Cluster) noteReached(r rule) {
	c.cover.by[r] |= c.happened
	c.cover.reached[r] = true
}

func (c *Cluster) noteTraceReached(t statemachine.Trace) {
	if t.Reason != message.ReasonNone {
		c.noteReached(ruleReasons + rule(t.Reason))
	}
	c.noteReached(ruleTraces + rule(t.Kind))
}

// Table counts the runs in which each rule was reached, in total and after a fault of each
// class.
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

// Cell is a rule and a class of faults.
type Cell struct {
	rule  rule
	class Faults
}

// String describes the cell.
func (c Cell) String() string { return fmt.Sprintf("%v after %v", c.rule, c.class) }

// Empty lists the cells that no run reached.
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

// String returns the table: one row for each rule and one column for each class.
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

// whyUnreachable returns the reason why a rule cannot be reached, or "".
func (r rule) whyUnreachable() string {
	switch r {
	case ruleReasons, ruleTraces:
		return "is not a rule"
	case rule(message.ReasonOwnAddress), rule(message.ReasonNotAddressed):
		return "guards against a faulty transport"
	case rule(message.ReasonTooLarge), rule(message.ReasonTableFull), rule(message.ReasonBusy):
		return "guards against an excessive request"
	default:
		return ""
	}
}
