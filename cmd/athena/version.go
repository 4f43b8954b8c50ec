// SPDX-License-Identifier: Apache-2.0

// athena version: print the version of this program.

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/wire"
)

// about is what version -o json prints.
type about struct {
	Build    string `json:"build"`
	Protocol int    `json:"protocol"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func thisProgram() about {
	return about{cli.Build(), wire.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "print the version of this program",
		Long: "version prints what this program was built from, the version of the protocol that it\n" +
			"speaks, and the Go and the system that it was built for. Nodes of another protocol\n" +
			"version are refused.",
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
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, which is one line, or json")
	return cmd
}

// versionText is what the verb and the flag of this name print.
func versionText() string {
	p := thisProgram()
	return fmt.Sprintf("athena %s, protocol %d, %s %s/%s", p.Build, p.Protocol, p.Go, p.OS, p.Arch)
}
