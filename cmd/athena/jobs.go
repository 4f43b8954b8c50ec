// SPDX-License-Identifier: Apache-2.0

// athena jobs: list the leader and the locks of each job; enable and disable members.

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

func newJobs() *cobra.Command {
	var changes bool
	cmd := ask.NewCommand(ask.Verb{
		Use: "jobs", Short: "list the leader and the lock holders of each job", Args: cli.NoArguments,
		Long: "jobs prints the jobs that have a leader or locks, as one node sees them: those of\n" +
			"athena elect and athena lock, with their --holder, and of programs that use the packages\n" +
			"election and lock. With --changes it prints the last ten changes of each job and lock that\n" +
			"this node has seen since it started.\n\n" +
			"Tokens are numbers as in ATHENA_TOKEN: VERSION x 10^12 + REVISION. A shard is stuck if its\n" +
			"work has not returned 5 s after its term ended; no other member can take it until then.",
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			list, print := c.Jobs, printJobs
			if changes {
				list, print = c.JobChanges, printChanges
			}
			jobs, err := list(ctx)
			if err != nil {
				return ask.Reply{}, err
			}
			s, err := c.Status(ctx)
			return ask.Reply{
				Answer: jobs,
				Table:  func(w io.Writer) { print(w, jobs) },
				Note:   describeStaleness(s),
			}, err
		},
	})
	cmd.Flags().BoolVar(&changes, "changes", false, "print the last changes instead")
	cmd.AddCommand(newEnable(), newDisable())
	return cmd
}

func printJobs(w io.Writer, jobs []adminapi.Job) {
	fmt.Fprintln(w, "JOB\tLEADER\tTOKEN\tDISABLED\tLOCKS\tSINCE\tHOLDER")
	for _, j := range jobs {
		leader, token, since, holder := "-", "-", "-", "-"
		if j.Leader != nil {
			leader, token = candidateName(j.Leader.Name, j.Leader.Address), j.Leader.Token.String()
			since, holder = sinceText(*j.Leader), cmp.Or(cli.Cell(j.Leader.Caller), "-")
		}
		disabled, latches := []string{}, []string{}
		for _, d := range j.Disabled {
			disabled = append(disabled, candidateName(d.Name, d.Address))
		}
		for _, host := range j.DisabledHosts {
			disabled = append(disabled, "host "+cli.Cell(host))
		}
		for _, l := range j.Latches {
			stuck := ""
			if l.Stuck {
				stuck = ", stuck"
			}
			latches = append(latches, fmt.Sprintf("%s (%s, %s%s%s)", cli.Cell(l.Name),
				candidateName(l.Holder.Name, l.Holder.Address), l.Holder.Token.String(), stuck,
				describeCaller(l.Holder)))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cli.Cell(j.Name), leader, token,
			joinCells(disabled), joinCells(latches), since, holder)
	}
}

// printChanges prints the changes of all jobs and locks, oldest first.
func printChanges(w io.Writer, jobs []adminapi.Job) {
	type line struct {
		time time.Time
		text string
	}
	var lines []line
	for _, j := range jobs {
		for _, c := range j.Changes {
			by, token, holder := "free", "-", "-"
			if c.Holder != nil {
				by, token = candidateName(c.Holder.Name, c.Holder.Address), c.Holder.Token.String()
				holder = cmp.Or(cli.Cell(c.Holder.Caller), "-")
			}
			lines = append(lines, line{c.Time, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", cli.Cell(j.Name),
				cmp.Or(cli.Cell(c.Latch), "-"), by, token, holder)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.time.Compare(b.time) })
	fmt.Fprintln(w, "TIME\tJOB\tLOCK\tBY\tTOKEN\tHOLDER")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\n", localTime(l.time), l.text)
	}
}

// sinceText returns since when h holds, or "-" if the node does not know.
func sinceText(h adminapi.Holder) string {
	if h.Since == nil {
		return "-"
	}
	return localTime(*h.Since)
}

func localTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// describeCaller returns the process for which h holds, and since when, each after a comma.
func describeCaller(h adminapi.Holder) (text string) {
	if h.Caller != "" {
		text = ", " + cli.Cell(h.Caller)
	}
	if h.Since != nil {
		text += ", since " + localTime(*h.Since)
	}
	return text
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
	return newSwitch("may lead", (*adminclient.Client).Enable, ask.Verb{
		Use:   "enable JOB [MEMBER]",
		Short: "let a disabled member or host lead a job again",
		Long: "MEMBER is an address or a name. A member may lead if neither it nor its host is\n" +
			"disabled. If the job has a leader, it continues to lead." + needsWrite,
		Example: "  athena jobs enable billing n3\n" +
			"  athena jobs enable billing --host 10.0.0.3",
	})
}

func newDisable() *cobra.Command {
	return newSwitch("may not lead", (*adminclient.Client).Disable, ask.Verb{
		Use:   "disable JOB [MEMBER]",
		Short: "keep a member or a host from leading a job",
		Long: "MEMBER is an address or a name, and need not be running. It cannot lead the job until\n" +
			"athena jobs enable. If it leads now, it loses the leadership immediately, even if it does\n" +
			"not respond: the next leader can start its command while that of this member still ends.\n" +
			"Locks of the job are not affected.\n\n" +
			"With --host instead of MEMBER, no member whose address has that host can lead, including\n" +
			"members that join later." + needsWrite,
		Example: "  athena jobs disable billing n3\n" +
			"  athena jobs disable billing --host 10.0.0.3",
	})
}

// newSwitch returns the verb v, which calls set for a member or a host. how describes the result.
func newSwitch(
	how string,
	set func(*adminclient.Client, context.Context, string, adminapi.CandidateRequest) error,
	v ask.Verb,
) *cobra.Command {
	var host string
	v.Args = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("host") {
			return cli.Exactly("JOB", "MEMBER")(cmd, args)
		}
		if len(args) > 1 {
			return fmt.Errorf("--host replaces MEMBER: remove %q or --host", args[1])
		}
		if !(member.Address{Host: host, Port: 1}).IsValid() {
			return fmt.Errorf("--host %.300q: must be a host name or an IP address, without a port", host)
		}
		return cli.Exactly("JOB")(cmd, args)
	}
	v.Ask = func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
		r, who := adminapi.CandidateRequest{Host: host}, "host "+host
		if host == "" {
			r.Member, who = args[1], args[1]
		}
		return ask.Reply{Answer: adminapi.Done{Status: "ok"}, Table: func(w io.Writer) {
			fmt.Fprintf(w, "%s %s %s\n", who, how, args[0])
		}}, set(c, ctx, args[0], r)
	}
	cmd := ask.NewCommand(v)
	cmd.Flags().StringVar(&host, "host", "", "host of the addresses of members, instead of MEMBER")
	return cmd
}
