// SPDX-License-Identifier: Apache-2.0

// athena leader: print the leader, and fail if there is none.

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
		Use: "leader", Short: "print the leader, fail when there is none", Args: cli.NoArguments,
		Long: "leader prints the leader that has authority. When there is none it prints nothing and\n" +
			"ends with 1, so that a script can ask. It does the same without a response; standard\n" +
			"error says which.",
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
