// SPDX-License-Identifier: Apache-2.0

// Package ask makes the verbs that put one question to the admin API of a node.
package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/internal/adminclient"
)

// DefaultAdmin is where demo listens, and where questions are asked.
const DefaultAdmin = "127.0.0.1:7070"

// Question is what all verbs have in common that ask a node.
type Question struct {
	admin, tokenFile, Output string
}

// Reply is what a node answered.
type Reply struct {
	Answer any             // printed as JSON
	Table  func(io.Writer) // prints it for people
	Note   string          // for standard error: how to read the answer; often empty
	Failed error           // the answer says that what was asked for was not done
}

// Verb is a verb that puts one question to a node.
type Verb struct {
	Use, Short, Long, Example string

	Args cobra.PositionalArgs
	Ask  func(ctx context.Context, c *adminclient.Client, args []string) (Reply, error)
}

// NewCommand returns the command of a verb, with the flags of a Question.
func NewCommand(v Verb) *cobra.Command {
	var q Question
	cmd := &cobra.Command{
		Use:   v.Use,
		Short: v.Short,
		Long:  v.Long,
		Example: cmp.Or(v.Example, fmt.Sprintf("  athena %[1]s --admin 127.0.0.1:7071\n"+
			"  ATHENA_ADMIN=unix:/run/athena/admin athena %[1]s -o json", v.Use)),
		Args: v.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := q.Client(cmd)
			if err != nil {
				return err
			}
			r, err := v.Ask(cmd.Context(), c, args)
			if err != nil {
				return q.Explain(err)
			}
			return q.print(cmd, r)
		},
	}
	q.Define(cmd.Flags())
	return cmd
}

// Define adds the flags of q.
func (q *Question) Define(f *pflag.FlagSet) {
	f.StringVar(&q.admin, "admin", DefaultAdmin,
		"admin API to ask: host:port or unix:PATH; also ATHENA_ADMIN")
	f.StringVar(&q.tokenFile, "admin-token-file", "",
		"file with the token that the admin API wants; also ATHENA_ADMIN_TOKEN_FILE")
	f.StringVarP(&q.Output, "output", "o", "table", "table or json")
}

// Client adds the variables to the flags, and makes of both who asks.
func (q *Question) Client(cmd *cobra.Command) (*adminclient.Client, error) {
	if err := cli.CheckOutput(q.Output); err != nil {
		return nil, err
	}
	settings.WarnMisspelled(cmd.ErrOrStderr(), os.Environ())
	err := settings.FromEnvironment(cmd.Flags(), os.Getenv, "admin", "admin-token-file")
	if err != nil {
		return nil, err
	}
	var opts []adminclient.Option
	if q.tokenFile != "" {
		token, err := admin.ReadToken(q.tokenFile)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("%s: %w", settings.Given(cmd.Flags(), "admin-token-file"), err))
		}
		opts = append(opts, adminclient.WithToken(token.Current))
	}
	c, err := adminclient.New(q.admin, opts...)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("%s: %w", settings.Given(cmd.Flags(), "admin"), err))
	}
	return c, nil
}

// Explain says of an error who gave it.
func (q *Question) Explain(err error) error {
	var told *adminclient.Error
	var usage cli.UsageError
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
func (q *Question) print(cmd *cobra.Command, r Reply) error {
	if r.Note != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "athena: %s\n", r.Note)
	}
	if q.Output == "json" {
		return errors.Join(cli.PrintJSON(cmd.OutOrStdout(), r.Answer), r.Failed)
	}
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	r.Table(t)
	return errors.Join(t.Flush(), r.Failed)
}
