// SPDX-License-Identifier: Apache-2.0

// athena leader, transfer and drain: print the leader, hand leadership over, and keep a node from
// leading until its process restarts.

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

func newTransfer() *cobra.Command {
	var to string
	cmd := ask.NewCommand(ask.Verb{
		Use:   "transfer",
		Short: "hand over leadership to another member",
		Long: "The node, which must be the leader, hands over to another member. transfer waits up to\n" +
			"15 seconds for the new leader and prints it. The old leader stays a member and can be\n" +
			"elected again; athena drain prevents that. If the member given by --to does not respond\n" +
			"within a heartbeat interval, another member takes over." + needsWrite,
		Example: "  athena transfer\n  athena transfer --to n2",
		Args:    cli.NoArguments,
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			h, err := c.Transfer(ctx, to)
			r := handedOver(h)
			if l := h.Leader; l != nil && to != "" && l.Name != to && l.Address.String() != to {
				r.Note = to + " did not respond: another member took over"
			}
			return r, err
		},
	})
	cmd.Flags().StringVar(&to, "to", "",
		"address or name of the new leader (default any member that can lead)")
	return cmd
}

func newDrain() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use:   "drain",
		Short: "keep a node from leading until its process restarts",
		Long: "The node hands over leadership, if it leads, and lets other members lead until its\n" +
			"process restarts. It stays a member, votes and receives events. drain waits up to 15\n" +
			"seconds for another leader and prints it.\n\n" +
			"If no other member can lead, the node keeps leading until one can, and drain exits with 1.\n" +
			"A drained node is elected only after two leader timeouts without a leader, and hands over\n" +
			"as soon as a member that is not drained can lead. athena prefer undoes it." + needsWrite,
		Example: "  athena drain --admin 127.0.0.1:7070",
		Args:    cli.NoArguments,
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			h, err := c.Drain(ctx)
			return handedOver(h), err
		},
	})
}

// handedOver returns a reply with the new leader, in the same format as athena leader.
func handedOver(h adminapi.HandedOver) ask.Reply {
	r := ask.Reply{Answer: h, Table: func(w io.Writer) {
		if h.Leader != nil {
			printLeader(w, *h.Leader)
		}
	}}
	if h.Leader == nil {
		r.Note = "there is no leader with authority yet; check again with athena leader"
	}
	return r
}
