// SPDX-License-Identifier: Apache-2.0

// athena leave: let a node leave its cluster in order, and end.

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
		Short: "let a node leave its cluster in order, and end",
		Long: "leave does what SIGTERM does to the node that is asked: it hands leadership over,\n" +
			"tells the others, and ends with 0. The answer comes before: leave does not wait for the\n" +
			"end. What starts processes again when they end, starts this one again too." + needsWrite,
		Example: "  athena leave --admin unix:/run/athena/admin.sock",
		Args:    cli.NoArguments,
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			err := c.Leave(ctx)
			return ask.Reply{Answer: adminapi.Done{Status: "leaving"}, Table: func(w io.Writer) {
				fmt.Fprintln(w, "the node leaves")
			}}, err
		},
	})
}
