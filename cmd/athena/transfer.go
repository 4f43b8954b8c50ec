// SPDX-License-Identifier: Apache-2.0

// athena transfer: hand over leadership to another member.

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

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
