// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

// maxCell bounds what a table shows of a name that somebody chose.
const maxCell = 300

func newJobs() *cobra.Command {
	cmd := newQuestion(asking{
		use: "jobs", short: "list who leads each job, and who holds its latches", args: noArguments,
		long: "jobs prints the jobs that have a leader of their own or latches, as one node last\n" +
			"learned it: those of athena elect and athena lock, and those of programs that use package\n" +
			"latch. A token is written as scripts get it: a million millions times its version, and\n" +
			"its revision.",
		ask: func(ctx context.Context, c *adminclient.Client, _ []string) (reply, error) {
			jobs, err := c.Jobs(ctx)
			if err != nil {
				return reply{}, err
			}
			s, err := c.Status(ctx)
			return reply{
				answer: jobs,
				table:  func(w io.Writer) { printJobs(w, jobs) },
				note:   staleness(s),
			}, err
		},
	})
	cmd.AddCommand(newEnable(), newDisable())
	return cmd
}

func printJobs(w io.Writer, jobs []adminapi.Job) {
	fmt.Fprintln(w, "JOB\tLEADER\tTOKEN\tDISABLED\tLATCHES")
	for _, j := range jobs {
		leader, token := "-", "-"
		if j.Leader != nil {
			leader, token = candidate(j.Leader.Name, j.Leader.Address), j.Leader.Token.String()
		}
		disabled, latches := []string{}, []string{}
		for _, d := range j.Disabled {
			disabled = append(disabled, candidate(d.Name, d.Address))
		}
		for _, l := range j.Latches {
			latches = append(latches, fmt.Sprintf("%s (%s, %s)",
				cell(l.Name), candidate(l.Holder.Name, l.Holder.Address), l.Holder.Token.String()))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n",
			cell(j.Name), leader, token, cells(disabled), cells(latches))
	}
}

// candidate is a member in a table: its name, or its address where it has none.
func candidate(name, address string) string {
	if name == "" {
		name = address
	}
	return cell(name)
}

// cell is text that somebody chose, fit for a table.
func cell(text string) string { return member.OneLine(text, maxCell) }

func cells(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ", ")
}

func newEnable() *cobra.Command {
	return newQuestion(asking{
		use: "enable JOB MEMBER", short: "let a member lead a job",
		args: exactly("JOB", "MEMBER"),
		long: "enable lets a member, by its address or name, lead a job again. Where somebody leads\n" +
			"it, that changes nothing." + needsWrite,
		example: "  athena jobs enable billing n3",
		ask: func(ctx context.Context, c *adminclient.Client, args []string) (reply, error) {
			return switched("may lead", args), c.Enable(ctx, args[0], args[1])
		},
	})
}

func newDisable() *cobra.Command {
	return newQuestion(asking{
		use: "disable JOB MEMBER", short: "let a member lead a job no more",
		args: exactly("JOB", "MEMBER"),
		long: "disable lets a member, by its address or name, lead a job no more until it is enabled,\n" +
			"whether it runs or not. One that leads loses that at once, also where it hangs. Latches\n" +
			"of the job are not concerned." + needsWrite,
		example: "  athena jobs disable billing n3",
		ask: func(ctx context.Context, c *adminclient.Client, args []string) (reply, error) {
			return switched("may no more lead", args), c.Disable(ctx, args[0], args[1])
		},
	})
}

func switched(how string, args []string) reply {
	return reply{answer: adminapi.Done{Status: "ok"}, table: func(w io.Writer) {
		fmt.Fprintf(w, "%s %s %s\n", args[1], how, args[0])
	}}
}
