// SPDX-License-Identifier: Apache-2.0

package mutants

import "slices"

// Mutant is one planted bug.
type Mutant struct {
	Name  string
	Rule  string // what it breaks, with the section of protocol.md
	Edits []Edit // more than one where two places keep the rule
	Test  string // of package sim that was written for it; else runs catch it
}

// Edit replaces a text in a file.
type Edit struct {
	File string // relative to the root of the module
	Old  string // stands in File exactly once
	New  string
}

// Table lists all mutants. Each switches one rule off.
func Table() []Mutant {
	return slices.Concat(members, founding, support, election, durable, classic, records, restart)
}
