// SPDX-License-Identifier: Apache-2.0

// athena demo: run a whole cluster on this machine, with a dashboard and fault injection.

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
		Short: "run a whole cluster on this machine, with a dashboard",
		Long: "demo starts the nodes as separate processes on loopback addresses, with the timings\n" +
			"of the profile lan. It prints the address of the dashboard, then each event with the\n" +
			"seconds since the start. Kill, pause, restart or isolate nodes on the dashboard or from a\n" +
			"shell, or let a script do it:\n\n" +
			"  failover   kill the leader, then restart it\n" +
			"  partition  isolate the leader in a minority, then heal the network\n" +
			"  rolling    restart every node, one after another\n\n" +
			"The nodes compete to lead the example jobs, which do no work. The admin API accepts write\n" +
			"requests, such as those of athena lock and athena elect.",
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
	f.IntVar(&d.Jobs, "jobs", 3, "number of example jobs")
	f.DurationVar(&d.Length, "for", 0, "stop after this time; 0 means never")
	f.StringVar(&d.Admin, "admin", ask.DefaultAdmin,
		"address of the dashboard and admin API: host:port on loopback or unix:PATH (env ATHENA_ADMIN)")
	f.StringVar(&d.Script, "script", "",
		"run failover, partition or rolling, then stop")
	return cmd
}
