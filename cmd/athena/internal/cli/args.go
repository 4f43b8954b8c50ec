// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// NoArguments refuses what is no flag.
func NoArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Changed("seeds"):
		return fmt.Errorf("unexpected argument %q: seeds are separated by commas, without spaces: "+
			"--seeds a:7000,b:7000", args[0])
	case cmd.HasAvailableSubCommands():
		return fmt.Errorf("unexpected argument %q: %s --help lists what there is", args[0],
			cmd.CommandPath())
	default:
		return fmt.Errorf("unexpected argument %q: %s takes flags alone", args[0], cmd.CommandPath())
	}
}

// Exactly wants one argument for each name.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > len(names) {
			return fmt.Errorf("unexpected argument %q: quote what has spaces", args[len(names)])
		}
		for _, name := range names[len(args):] {
			return errors.New(name + " is missing")
		}
		return nil
	}
}
