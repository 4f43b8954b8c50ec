// SPDX-License-Identifier: Apache-2.0

// athena version: print the version of this program.

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/message"
)

// about is the output of version -o json.
type about struct {
	Build    string `json:"build"`
	Protocol int    `json:"protocol"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func thisProgram() about {
	return about{cli.Build(), message.Protocol, runtime.Version(), runtime.GOOS, runtime.GOARCH}
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "print the version of this program",
		Long: "version prints the build, the protocol version, the version of Go and the platform.\n" +
			"Nodes with different protocol versions refuse each other.",
		Example: "  athena version\n  athena version -o json | jq .protocol",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.CheckOutput(output); err != nil {
				return err
			}
			if output == "json" {
				return cli.PrintJSON(cmd.OutOrStdout(), thisProgram())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table (one line) or json")
	return cmd
}

// versionText returns the output of athena version and athena --version.
func versionText() string {
	p := thisProgram()
	return fmt.Sprintf("athena %s, protocol %d, %s %s/%s", p.Build, p.Protocol, p.Go, p.OS, p.Arch)
}
