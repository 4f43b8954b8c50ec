// SPDX-License-Identifier: Apache-2.0

// athena jobs: list the leader and the locks of each job; enable and disable members.

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

func newJobs() *cobra.Command {
	cmd := ask.NewCommand(ask.Verb{
		Use: "jobs", Short: "list the leader and the lock holders of each job", Args: cli.NoArguments,
		Long: "jobs prints the jobs that have a leader or locks, as one node sees them: those of\n" +
			"athena elect and athena lock, and of programs that use the packages election and lock.\n" +
			"Tokens are numbers as in ATHENA_TOKEN: VERSION x 10^12 + REVISION.",
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			jobs, err := c.Jobs(ctx)
			if err != nil {
				return ask.Reply{}, err
			}
			s, err := c.Status(ctx)
			return ask.Reply{
				Answer: jobs,
				Table:  func(w io.Writer) { printJobs(w, jobs) },
				Note:   describeStaleness(s),
			}, err
		},
	})
	cmd.AddCommand(newEnable(), newDisable())
	return cmd
}

func printJobs(w io.Writer, jobs []adminapi.Job) {
	fmt.Fprintln(w, "JOB\tLEADER\tTOKEN\tDISABLED\tLOCKS")
	for _, j := range jobs {
		leader, token := "-", "-"
		if j.Leader != nil {
			leader, token = candidateName(j.Leader.Name, j.Leader.Address), j.Leader.Token.String()
		}
		disabled, latches := []string{}, []string{}
		for _, d := range j.Disabled {
			disabled = append(disabled, candidateName(d.Name, d.Address))
		}
		for _, l := range j.Latches {
			latches = append(latches, fmt.Sprintf("%s (%s, %s)",
				cli.Cell(l.Name), candidateName(l.Holder.Name, l.Holder.Address), l.Holder.Token.String()))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n",
			cli.Cell(j.Name), leader, token, joinCells(disabled), joinCells(latches))
	}
}

// candidateName returns the name of a member, or its address if it has no name, for use in a table.
func candidateName(name, address string) string {
	if name == "" {
		name = address
	}
	return cli.Cell(name)
}

func joinCells(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ", ")
}

func newEnable() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use: "enable JOB MEMBER", Short: "let a disabled member lead a job again",
		Args: cli.Exactly("JOB", "MEMBER"),
		Long: "MEMBER is an address or a name. If the job has a leader, it continues to lead." +
			needsWrite,
		Example: "  athena jobs enable billing n3",
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
			return replySwitched("may lead", args), c.Enable(ctx, args[0], args[1])
		},
	})
}

func newDisable() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use: "disable JOB MEMBER", Short: "keep a member from leading a job",
		Args: cli.Exactly("JOB", "MEMBER"),
		Long: "MEMBER is an address or a name, and need not be running. It cannot lead the job until\n" +
			"athena jobs enable. If it leads now, it loses the leadership immediately, even if it does\n" +
			"not respond. Locks of the job are not affected." + needsWrite,
		Example: "  athena jobs disable billing n3",
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
			return replySwitched("may not lead", args), c.Disable(ctx, args[0], args[1])
		},
	})
}

func replySwitched(how string, args []string) ask.Reply {
	return ask.Reply{Answer: adminapi.Done{Status: "ok"}, Table: func(w io.Writer) {
		fmt.Fprintf(w, "%s %s %s\n", args[1], how, args[0])
	}}
}
