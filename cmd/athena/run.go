// SPDX-License-Identifier: Apache-2.0

// athena run: run one node of a cluster until a signal stops it.

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/daemon"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/cmd/athena/internal/supervised"
)

func newRun() *cobra.Command {
	var s settings.Settings
	var isSupervised bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "run one node until it is told to stop",
		Long: "run makes this process a member of a cluster. SIGINT, SIGTERM or SIGHUP lets it leave\n" +
			"in order, handing over leadership first; a second one ends it at once. Under nohup\n" +
			"SIGHUP stays ignored.\n\n" +
			"Every flag can be given as a variable too, --data-dir as ATHENA_DATA_DIR, and as a line\n" +
			"of the file of --config. Flags win over variables, variables over the file; an empty\n" +
			"variable counts as unset. If athena config check finds a fault, run prints the same and\n" +
			"starts nothing.",
		Example: "  athena run --addr 10.0.0.1:7000 --size 3 --seeds 10.0.0.1:7000,10.0.0.2:7000 \\\n" +
			"      --secret-file secret --admin 127.0.0.1:7070\n" +
			"  athena run --config athena.yaml --addr 10.0.0.2:7000",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := s.Settle(cmd.Flags(), os.Getenv)
			if err != nil {
				settings.WarnMisspelled(cmd.ErrOrStderr(), os.Environ())
				return err
			}
			o := daemon.Options{
				Settings: &s, Config: config, Flags: cmd.Flags(), Log: cmd.ErrOrStderr(),
			}
			if isSupervised {
				o.Parent = supervised.NewParent(cmd.InOrStdin(), cmd.OutOrStdout())
			}
			return daemon.Run(o)
		},
	}
	f := cmd.Flags()
	s.Define(f)
	f.BoolVar(&isSupervised, "supervised", false, "report to a parent process, and end with it")
	if err := f.MarkHidden("supervised"); err != nil {
		panic(err) // the flag is defined on the line before
	}
	return cmd
}
