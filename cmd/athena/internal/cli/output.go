// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/athena-go/athena/internal/safetext"
)

// CheckOutput returns a usage error if output is neither table nor json.
func CheckOutput(output string) error {
	if output != "table" && output != "json" {
		return Usage(fmt.Errorf("--output %q: must be table or json", output))
	}
	return nil
}

// PrintJSON prints v as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// maxCell limits the length of a name in a table.
const maxCell = 300

// Cell returns text for use in a table: control characters are escaped, and at most maxCell
// characters are kept.
func Cell(text string) string { return safetext.OneLine(text, maxCell) }
