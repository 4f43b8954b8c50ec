// SPDX-License-Identifier: Apache-2.0

// athena demo: run a whole cluster on this machine, to look at and to break.

package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/demo"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

func newDemo(began time.Time) *cobra.Command {
	d := demo.Options{Began: began}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "run a whole cluster on this machine, to look at and to break",
		Long: "demo runs nodes, each a process of its own, on loopback addresses, with the timings\n" +
			"of a local network, and prints the address of a page that shows them, then what\n" +
			"happens, in seconds since it began. Break them as you like, on the page or by hand, or\n" +
			"let a script do it: failover kills the leader and starts it again, partition cuts the\n" +
			"leader off with a minority and heals, rolling restarts every node. The nodes contend for\n" +
			"--jobs jobs, which nobody works on, and whoever asks them may lock and elect.",
		Example: "  athena demo\n  athena demo --size 3 --for 30s --script failover",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings.WarnMisspelled(cmd.ErrOrStderr(), os.Environ())
			if err := settings.FromEnvironment(cmd.Flags(), os.Getenv, "admin"); err != nil {
				return err
			}
			if err := d.Validate(cmd.Flags()); err != nil {
				return cli.Usage(err)
			}
			return d.Run(cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&d.Size, "size", 5, "number of nodes")
	f.IntVar(&d.Jobs, "jobs", 3, "number of jobs that the nodes contend for, to look at")
	f.DurationVar(&d.Length, "for", 0, "end after this time, 0 for never")
	f.StringVar(&d.Admin, "admin", ask.DefaultAdmin,
		"page and admin API of the whole demo: host:port on loopback or unix:PATH; also ATHENA_ADMIN")
	f.StringVar(&d.Script, "script", "", "failover, partition or rolling; ends when it is done")
	return cmd
}
