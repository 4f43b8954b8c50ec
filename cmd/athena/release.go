// SPDX-License-Identifier: Apache-2.0

// athena release: remove the seats of members that left.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

func newRelease() *cobra.Command {
	var keep int
	cmd := ask.NewCommand(ask.Verb{
		Use:   "release --keep N",
		Short: "remove the seats of members that left",
		Long: "A member that left keeps its seat for --seat-timeout of the leader, and returns to it\n" +
			"when it starts again. release removes such seats until N members remain: a node at\n" +
			"another address gets the seat then, or athena resize can make the cluster smaller. The\n" +
			"node must be the leader, N members, at least a majority of the size, must run, and the\n" +
			"others must be removed in athena members. release waits up to 15 seconds; the leader then\n" +
			"continues. A member without a seat joins as a new one: do not start it again, and delete\n" +
			"its data directory. Keep the directory until then: if another member fails, start the one\n" +
			"that left." +
			needsWrite,
		Example: "  athena release --keep 3 --admin 127.0.0.1:7070",
		Args:    cli.NoArguments,
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			if keep < 1 {
				return ask.Reply{}, cli.Usage(errors.New("--keep is required"))
			}
			err := c.ReleaseSeats(ctx, keep)
			return ask.Reply{Answer: adminapi.Done{Status: "ok"}, Table: func(w io.Writer) {
				fmt.Fprintf(w, "at most %d members remain\n", keep)
			}}, err
		},
	})
	cmd.Flags().IntVar(&keep, "keep", 0, "number of members to keep")
	return cmd
}
