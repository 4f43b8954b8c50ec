// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// NoArguments accepts flags only.
func NoArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Changed("seeds"):
		return fmt.Errorf("unexpected argument %q: separate seeds by commas, without spaces: "+
			"--seeds a:7000,b:7000", args[0])
	case cmd.HasAvailableSubCommands():
		return fmt.Errorf("unknown subcommand %q of %s", args[0], cmd.CommandPath())
	default:
		return fmt.Errorf("unexpected argument %q: %s takes no arguments", args[0], cmd.CommandPath())
	}
}

// Exactly requires one argument for each name.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > len(names) {
			return fmt.Errorf("unexpected argument %q: quote arguments that contain spaces",
				args[len(names)])
		}
		for _, name := range names[len(args):] {
			return errors.New(name + " is missing")
		}
		return nil
	}
}
