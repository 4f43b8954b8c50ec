// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// defaultAdmin is where demo listens, and where questions are asked.
const defaultAdmin = "127.0.0.1:7070"

// question is what all verbs have in common that ask a node.
type question struct {
	admin, tokenFile, output string
}

// reply is what a node answered.
type reply struct {
	answer any             // printed as JSON
	table  func(io.Writer) // prints it for people
	note   string          // for standard error: how to read the answer; often empty
	failed error           // the answer says that what was asked for was not done
}

// asker puts one question to a node.
type asker func(ctx context.Context, c *adminclient.Client, args []string) (reply, error)

// asking is a verb that asks a node, once.
type asking struct {
	use, short, long, example string

	args cobra.PositionalArgs
	ask  asker
}

func newQuestion(v asking) *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:   v.use,
		Short: v.short,
		Long:  v.long,
		Example: cmp.Or(v.example, fmt.Sprintf("  athena %[1]s --admin 127.0.0.1:7071\n"+
			"  ATHENA_ADMIN=unix:/run/athena/admin athena %[1]s -o json", v.use)),
		Args: v.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := q.client(cmd)
			if err != nil {
				return err
			}
			r, err := v.ask(cmd.Context(), c, args)
			if err != nil {
				return q.explained(err)
			}
			return q.print(cmd, r)
		},
	}
	q.define(cmd.Flags())
	return cmd
}

func (q *question) define(f *pflag.FlagSet) {
	f.StringVar(&q.admin, "admin", defaultAdmin,
		"admin API to ask: host:port or unix:PATH; also ATHENA_ADMIN")
	f.StringVar(&q.tokenFile, "admin-token-file", "",
		"file with the token that the admin API wants; also ATHENA_ADMIN_TOKEN_FILE")
	f.StringVarP(&q.output, "output", "o", "table", "table or json")
}

// client adds the variables to the flags, and makes of both who asks.
func (q *question) client(cmd *cobra.Command) (*adminclient.Client, error) {
	if err := checkOutput(q.output); err != nil {
		return nil, err
	}
	warnMisspelled(cmd.ErrOrStderr(), os.Environ())
	err := fromEnvironment(cmd.Flags(), os.Getenv, "admin", "admin-token-file")
	if err != nil {
		return nil, err
	}
	var opts []adminclient.Option
	if q.tokenFile != "" {
		token, err := admin.ReadToken(q.tokenFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", given(cmd.Flags(), "admin-token-file"), err)}
		}
		opts = append(opts, adminclient.WithToken(token.Current))
	}
	c, err := adminclient.New(q.admin, opts...)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", given(cmd.Flags(), "admin"), err)}
	}
	return c, nil
}

// explained says of an error who gave it.
func (q *question) explained(err error) error {
	var told *adminclient.Error
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return err
	case errors.As(err, &told) && told.Code == "":
		return fmt.Errorf("something else answers at %s, no node of Athena: %w; "+
			"name the --admin of a node with --admin or ATHENA_ADMIN", q.admin, err)
	case errors.As(err, &told):
		return fmt.Errorf("the node at %s says: %w", q.admin, err)
	default:
		return fmt.Errorf("nobody answers at %s; is a node running with --admin %s? "+
			"Name another with --admin or ATHENA_ADMIN: %w", q.admin, q.admin, err)
	}
}

// print prints an answer.
func (q *question) print(cmd *cobra.Command, r reply) error {
	if r.note != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "athena: %s\n", r.note)
	}
	if q.output == "json" {
		return errors.Join(printJSON(cmd.OutOrStdout(), r.answer), r.failed)
	}
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	r.table(t)
	return errors.Join(t.Flush(), r.failed)
}

func newMembers() *cobra.Command {
	return newQuestion(asking{
		use: "members", short: "list the members that a node sees", args: noArguments,
		long: "members prints the members that one node sees, with their status and who leads them.\n" +
			"Where no leader stands for that list, standard error says so.",
		ask: func(ctx context.Context, c *adminclient.Client, _ []string) (reply, error) {
			// The status says in one look who the leader of these members is.
			s, err := c.Status(ctx)
			return reply{
				answer: s.View.Members,
				table:  func(w io.Writer) { printMembers(w, s) },
				note:   staleness(s),
			}, err
		},
	})
}

// staleness says of members that no leader with authority stands for what they
// are; empty where one does.
func staleness(s adminapi.Status) string {
	_, quorate := s.LeaderOf()
	switch {
	case quorate:
		return ""
	case len(s.View.Members) == 0:
		return "no leader: the node has joined nothing yet; athena status says why"
	default:
		return fmt.Sprintf("no leader with authority: this is what the node holds from version "+
			"%d.%d; athena status says why", s.View.Version, s.View.Revision)
	}
}

func printMembers(w io.Writer, s adminapi.Status) {
	leader, quorate := s.LeaderOf()
	fmt.Fprintln(w, "NAME\tADDRESS\tSTATUS\tROLE\tSEED\tINCARNATION")
	for _, m := range s.View.Members {
		role, seed := "-", "-"
		switch {
		case quorate && m.Address == leader.Address:
			role = "leader"
		case m.Address == s.View.Leader:
			role = "leader without quorum"
		}
		if m.Seed {
			seed = "seed"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n",
			m.Name, m.Address, m.Status, role, seed, m.Incarnation)
	}
}

func newLeader() *cobra.Command {
	return newQuestion(asking{
		use: "leader", short: "print the leader, fail when there is none", args: noArguments,
		long: "leader prints the leader that has authority. When there is none it prints nothing and\n" +
			"ends with 1, so that a script can ask. It does the same when nobody answers; standard\n" +
			"error says which.",
		ask: func(ctx context.Context, c *adminclient.Client, _ []string) (reply, error) {
			l, err := c.Leader(ctx)
			return reply{answer: l, table: func(w io.Writer) { printLeader(w, l) }}, err
		},
	})
}

func printLeader(w io.Writer, l adminapi.Leader) {
	fmt.Fprintln(w, "NAME\tADDRESS\tTOKEN")
	fmt.Fprintf(w, "%s\t%s\t%d\n", l.Name, l.Address, l.Token)
}

func newStatus() *cobra.Command {
	return newQuestion(asking{
		use: "status", short: "print what a node says about itself and its cluster", args: noArguments,
		long: "status prints what one node says: who it is, who leads and since when, or why nobody\n" +
			"does, and what it refused. -o json is the answer of GET /v1/status.",
		ask: func(ctx context.Context, c *adminclient.Client, _ []string) (reply, error) {
			s, err := c.Status(ctx)
			return reply{answer: s, table: func(w io.Writer) { printStatus(w, s) }}, err
		},
	})
}

// named is how people are told of a node: by its name too, where it has one.
func named(name string, a member.Address) string {
	if name == "" || name == a.String() {
		return a.String()
	}
	return name + " at " + a.String()
}

// printElection says why the leader changed last, who voted and how long each step took.
func printElection(line func(name, format string, args ...any), e adminapi.Election) {
	cause := string(e.Cause)
	if e.Rule != "" {
		cause += " (" + e.Rule + ")"
	}
	if !e.Before.IsZero() && e.Before != e.Leader {
		cause += " of " + e.Before.String()
	}
	line("last election", "version %d, %s, %.0f ms without a leader", e.Version, cause, e.TookMS)
	if len(e.Votes) > 0 {
		line("votes", "%s (those that this node knows of)", joined(e.Votes))
	}
	if len(e.Steps) > 0 {
		var steps []string
		for _, s := range e.Steps {
			steps = append(steps, fmt.Sprintf("%s %.0f ms", s.Name, s.AfterMS))
		}
		line("steps", "%s", strings.Join(steps, ", "))
	}
}

func joined(addresses []member.Address) string {
	var names []string
	for _, a := range addresses {
		names = append(names, a.String())
	}
	return strings.Join(names, ", ")
}

func printStatus(w io.Writer, s adminapi.Status) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	role, when := s.Role, ""
	if s.Role == member.Seeking.String() && s.View.Version > 0 {
		// The store remembers a cluster that the node has yet to find again.
		role += fmt.Sprintf(" (holds version %d.%d)", s.View.Version, s.View.Revision)
		when = " then"
	}
	if s.Drained {
		role += ", drained: it leads only if no other member can"
	}
	line("node", "%s, %s", named(s.Self.Name, s.Self.Address), role)
	line("cluster", "%s, %d of %d members active%s, %d make a majority",
		s.Cluster, s.Active(), s.Size, when, s.Quorum)
	if l, ok := s.LeaderOf(); ok {
		line("leader", "%s, token %d", named(l.Name, l.Address), l.Token)
		for _, a := range s.OtherSeeds { // else part of why there is none
			line("seeds", "%s has other seeds: give every node the same list, "+
				"without nodes of other clusters", a)
		}
	} else {
		line("leader", "none with authority")
		line("why", "%s", s.NoLeader)
	}
	if s.IsLeader() {
		line("lease", "%.0f ms left", s.LeaseRemainingMS)
	}
	line("view", "version %d, revision %d", s.View.Version, s.View.Revision)
	if e := s.LastElection; e != nil {
		printElection(line, *e)
	}
	if n := s.Handshakes[transport.ResultCertificate.String()]; n > 0 {
		line("refused", "handshakes for a secret or certificate: %d", n)
	}
	up := time.Duration(s.UptimeMS * float64(time.Millisecond)).Round(time.Second)
	line("running", "%v, %s, protocol %d", up, s.Build, s.Protocol)
}
