// SPDX-License-Identifier: Apache-2.0

package mutants

import "slices"

// Mutant describes a bug to be planted.
type Mutant struct {
	Name  string
	Rule  string // the broken rule, with its section of protocol.md
	Edits []Edit // several if the rule is implemented in several places
	Test  string // test that catches it; if empty, runs of seeds catch it
	// Package is the folder of Test, test/sim if empty.
	Package string
}

// Edit replaces a text in a file.
type Edit struct {
	File string // relative to the root of the module
	Old  string // must occur in File exactly once
	New  string
	// Alone is why the edit is harmless without the other edits. It is empty if a test or a run of
	// seeds must fail.
	Alone string
}

// Table lists all mutants. Each disables one rule.
func Table() []Mutant {
	return slices.Concat(members, identity, copies, founding, support, election, durable, classic,
		records, workers, restart, timings, preferences)
}
