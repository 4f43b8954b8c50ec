// SPDX-License-Identifier: Apache-2.0

// athena send: send an event to members, and print the outcome at each.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

func newSend() *cobra.Command {
	var to string
	cmd := ask.NewCommand(ask.Verb{
		Use:   "send NAME JSON",
		Short: "send an event to members, and say what became of it",
		Long: "send gives an event to one member, or to all that are active, the one that is asked\n" +
			"among them, and waits up to 15 seconds for the handlers there. The handlers take it for\n" +
			"one of that node. NAME is the name of the event's type; JSON has its fields by the names\n" +
			"that they have in Go, or in the tag `msgpack`. A time.Time cannot be sent so.\n\n" +
			"It prints for each member `handled`, or why not, and ends with 1 where one of them has\n" +
			"not handled it. Programs have handlers for events; athena run has none." + needsWrite,
		Example: "  athena send Reload '{}'\n" +
			"  athena send Order '{\"ID\": 7, \"Item\": \"pen\"}' --to n2",
		Args: cli.Exactly("NAME", "JSON"),
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
			if !json.Valid([]byte(args[1])) {
				return ask.Reply{}, cli.Usage(fmt.Errorf("%q is no JSON value: quote it for the shell, as in "+
					`'{"ID": 7}'`, args[1]))
			}
			sent, err := c.Send(ctx, adminapi.SendRequest{
				Name: args[0], Payload: json.RawMessage(args[1]), To: to,
			})
			failed := 0
			for _, r := range sent.Results {
				if r.Result != adminapi.OutcomeHandled {
					failed++
				}
			}
			r := ask.Reply{Answer: sent, Table: func(w io.Writer) { printSent(w, sent) }}
			if failed > 0 {
				r.Failed = fmt.Errorf("%d of %d members have not handled the event",
					failed, len(sent.Results))
			}
			return r, err
		},
	})
	cmd.Flags().StringVar(&to, "to", "", "address or name of the one member to send to")
	return cmd
}

func printSent(w io.Writer, sent adminapi.Sent) {
	fmt.Fprintln(w, "NAME\tADDRESS\tRESULT\tERROR")
	for _, r := range sent.Results {
		why := r.Error
		if why == "" {
			why = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, r.Address, r.Result, why)
	}
}
