// SPDX-License-Identifier: Apache-2.0

// athena drain: keep a node from leading until its process restarts.

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminclient"
)

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
