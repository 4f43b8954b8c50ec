// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// environmentPrefix begins the names of the variables that stand for flags:
// ATHENA_DATA_DIR for --data-dir. Others with the prefix are none of ours:
// container platforms make some up for a service called athena.
const environmentPrefix = "ATHENA_"

// fromEnvironment sets each flag that the command line did not, from its
// variable where there is one; with names, these flags alone.
func fromEnvironment(
	flags *pflag.FlagSet, lookup func(string) (string, bool), names ...string,
) error {
	if len(names) == 0 {
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				names = append(names, f.Name)
			}
		})
	}
	for _, name := range names {
		variable := environmentPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value, ok := lookup(variable)
		if !ok || flags.Changed(name) {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return usageError{fmt.Errorf("%s=%q: %w", variable, value, err)}
		}
	}
	return nil
}
