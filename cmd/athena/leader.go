// SPDX-License-Identifier: Apache-2.0

// athena leader: print the leader, or fail if there is no leader.

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

func newLeader() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use: "leader", Short: "print the leader, or fail if there is none", Args: cli.NoArguments,
		Long: "leader prints the name, address and token of the leader if a majority supports it.\n" +
			"Otherwise, or if the node does not respond, it prints the reason to standard error and\n" +
			"exits with 1.",
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			l, err := c.Leader(ctx)
			return ask.Reply{Answer: l, Table: func(w io.Writer) { printLeader(w, l) }}, err
		},
	})
}

func printLeader(w io.Writer, l adminapi.Leader) {
	fmt.Fprintln(w, "NAME\tADDRESS\tTOKEN")
	fmt.Fprintf(w, "%s\t%s\t%d\n", l.Name, l.Address, l.Token)
}
