// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagFault rewrites an error of pflag: it adds the valid values of the flag, or a suggestion for
// an unknown flag.
func FlagFault(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s %q: %s", bad.GetFlag().Name, bad.GetValue(), wantedValues(bad))
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		// After a single dash, pflag parses the name as a list of short flags.
		name := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
		if meant := meantFlag(name, Settable(cmd.Flags())); meant != "" {
			return fmt.Errorf("%w; did you mean --%s?", err, meant)
		}
	}
	return err
}

// wantedValues describes the valid values of the flag.
func wantedValues(bad *pflag.InvalidValueError) string {
	cause := bad.Unwrap()
	if errors.Is(cause, strconv.ErrRange) {
		return "is out of range"
	}
	switch bad.GetFlag().Value.Type() {
	case "int":
		return "must be an integer"
	case "intSlice":
		return "must be integers separated by commas"
	case "uint64":
		return "must be a non-negative integer"
	case "bool":
		return "must be true or false"
	case "duration":
		return "must be a duration with a unit, such as 500ms, 10s or 1m30s"
	default:
		return cause.Error()
	}
}

// meantFlag returns the known flag with a similar name, or "" if there is none.
func meantFlag(name string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	if n := nearestWord(name, known); editDistance(name, n) <= 1+len(name)/4 {
		return n
	}
	i := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(k, name) })
	if i < 0 {
		return ""
	}
	return known[i]
}
