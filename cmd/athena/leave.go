// SPDX-License-Identifier: Apache-2.0

// athena leave: make a node leave its cluster and exit.

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

func newLeave() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use:   "leave",
		Short: "make a node leave its cluster and exit",
		Long: "leave has the effect of SIGTERM: the node stops the commands of lock, elect and group,\n" +
			"waits up to 17 seconds for them, hands over leadership, notifies the other members and\n" +
			"exits with 0. leave returns before the node has exited. A supervisor that restarts\n" +
			"processes when they exit also restarts this one." + needsWrite,
		Example: "  athena leave --admin unix:/run/athena/admin.sock",
		Args:    cli.NoArguments,
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			err := c.Leave(ctx)
			return ask.Reply{Answer: adminapi.Done{Status: "leaving"}, Table: func(w io.Writer) {
				fmt.Fprintln(w, "the node is leaving")
			}}, err
		},
	})
}
