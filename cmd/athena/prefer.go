// SPDX-License-Identifier: Apache-2.0

// athena prefer: set how much a node should lead until its process restarts.

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

func newPrefer() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use:   "prefer NUMBER|never",
		Short: "set how much a node should lead until its process restarts",
		Long: "Of the members that can lead, one with the greatest preference is elected first: 0 is\n" +
			"the default, 100 the greatest. A node that never leads is a witness: it only votes. prefer\n" +
			"undoes athena drain; a restart returns to --preference.\n\n" +
			"prefer never waits up to 15 seconds for another leader, and exits with 1 if no other\n" +
			"member can lead: the node then leads until one can. A greater preference does not replace\n" +
			"a working leader unless the nodes run with --hand-over-to-preferred." + needsWrite,
		Example: "  athena prefer 2 --admin 127.0.0.1:7070\n" +
			"  athena prefer never",
		Args: cli.Exactly("NUMBER, or never,"),
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
			p, err := member.ParsePreference(args[0])
			if err != nil {
				return ask.Reply{}, cli.Usage(err)
			}
			h, err := c.Prefer(ctx, p)
			return handedOver(h), err
		},
	})
}
