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

// FlagFault says what is wrong with the flags of a command line.
func FlagFault(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s %q: %s", bad.GetFlag().Name, bad.GetValue(), wantedValues(bad))
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		// With one dash all of a name are short flags.
		name := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
		if meant := meantFlag(name, Settable(cmd.Flags())); meant != "" {
			return fmt.Errorf("%w; did you mean --%s?", err, meant)
		}
	}
	return err
}

// wantedValues says what values a flag has, when it was given another one.
func wantedValues(bad *pflag.InvalidValueError) string {
	cause := bad.Unwrap()
	if errors.Is(cause, strconv.ErrRange) {
		return "is out of range"
	}
	switch bad.GetFlag().Value.Type() {
	case "int":
		return "must be a whole number"
	case "intSlice":
		return "must be whole numbers, separated by commas"
	case "uint64":
		return "must be a whole number, not below 0"
	case "bool":
		return "must be true or false"
	case "duration":
		return "must be a time with its unit, such as 500ms, 10s or 1m30s"
	default:
		return cause.Error()
	}
}

// meantFlag is the flag that somebody may have meant who gave another name, empty
// where none is near.
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
