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
		Short: "keep a node from leading, for the rest of its run",
		Long: "drain lets the node that is asked hand leadership over, if it leads, and lets other\n" +
			"members lead until its process is restarted: there is no way back before. It stays a\n" +
			"member, votes and gets events. drain waits up to 15 seconds until another member leads,\n" +
			"and prints it. Where no other member can, the node leads on until one can, and drain ends\n" +
			"with 1. A drained node is elected only if there was no leader for two leader timeouts, and\n" +
			"hands over as soon as a member that is not drained can lead." +
			needsWrite,
		Example: "  athena drain --admin 127.0.0.1:7070",
		Args:    cli.NoArguments,
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			h, err := c.Drain(ctx)
			return handedOver(h), err
		},
	})
}
