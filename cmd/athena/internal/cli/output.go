// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/athena-go/athena/internal/safetext"
)

// CheckOutput wants a value that --output has.
func CheckOutput(output string) error {
	if output != "table" && output != "json" {
		return Usage(fmt.Errorf("--output %q: must be table or json", output))
	}
	return nil
}

// PrintJSON prints what -o json asks for.
func PrintJSON(w io.Writer, what any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(what)
}

// maxCell bounds what a table shows of a name that somebody chose.
const maxCell = 300

// Cell is text that somebody chose, fit for a table.
func Cell(text string) string { return safetext.OneLine(text, maxCell) }
