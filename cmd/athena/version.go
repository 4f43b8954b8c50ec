// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/wire"
)

// shortRevision is how much of the hash of a commit is shown.
const shortRevision = 12

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version of this program",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}

// version is what the verb and the flag of this name print.
func version() string {
	return fmt.Sprintf("athena %s, protocol %d, %s %s/%s",
		build(), wire.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// build names what this program was built from: the version of the module, or
// the commit where it was built from a working copy.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	name := info.Main.Version
	var revision, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(len(s.Value), shortRevision)]
		case "vcs.modified":
			if s.Value == "true" {
				modified = ", modified"
			}
		}
	}
	if revision != "" {
		name += " (commit " + revision + modified + ")"
	}
	return name
}
