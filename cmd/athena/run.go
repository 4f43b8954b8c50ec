// SPDX-License-Identifier: Apache-2.0

// athena run: run one node of a cluster until it is stopped.

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
		Short: "run one node of a cluster until it is stopped",
		Long: "On SIGINT or SIGTERM the node hands over leadership, leaves the cluster and exits. A\n" +
			"second signal ends it immediately. SIGHUP reads the --config file, secrets and\n" +
			"certificates again: secrets, certificates, labels, preference and log level change, and\n" +
			"a warning names other keys that have changed.\n\n" +
			"Each flag can also be set by an environment variable (--data-dir by ATHENA_DATA_DIR) or\n" +
			"by a key of the --config file. Flags override variables, and variables override the\n" +
			"file. run reports the same errors as athena config check, and starts nothing then.",
		Example: "  athena run --addr 10.0.0.1:7000 --size 3 --seeds 10.0.0.1:7000,10.0.0.2:7000 \\\n" +
			"      --secret-file secret --admin 127.0.0.1:7070\n" +
			"  athena run --config athena.yaml --addr 10.0.0.2:7000",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon.GuardSecrets()
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
	f.BoolVar(&isSupervised, "supervised", false, "report to the parent process and exit with it")
	if err := f.MarkHidden("supervised"); err != nil {
		panic(err) // impossible: the flag is defined
	}
	return cmd
}
