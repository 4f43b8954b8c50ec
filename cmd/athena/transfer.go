// SPDX-License-Identifier: Apache-2.0

// athena transfer: let the leader hand leadership over to another member.

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
		Short: "let the leader hand leadership over",
		Long: "transfer makes the node that is asked, which must lead, hand leadership over to\n" +
			"another member, and waits up to 15 seconds until one leads. It prints the new leader. The\n" +
			"old one stays a member, and may lead again; see athena drain. If the member given by --to\n" +
			"does not answer for a heartbeat interval, another one leads in its place." + needsWrite,
		Example: "  athena transfer\n  athena transfer --to n2",
		Args:    cli.NoArguments,
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			h, err := c.Transfer(ctx, to)
			r := handedOver(h)
			if l := h.Leader; l != nil && to != "" && l.Name != to && l.Address.String() != to {
				r.Note = to + " did not answer: another member leads in its place"
			}
			return r, err
		},
	})
	cmd.Flags().StringVar(&to, "to", "",
		"address or name of the member that is to lead (default any that can)")
	return cmd
}

// handedOver prints who leads, as athena leader does.
func handedOver(h adminapi.HandedOver) ask.Reply {
	r := ask.Reply{Answer: h, Table: func(w io.Writer) {
		if h.Leader != nil {
			printLeader(w, *h.Leader)
		}
	}}
	if h.Leader == nil {
		r.Note = "nobody leads with authority at the moment; athena leader asks again"
	}
	return r
}
