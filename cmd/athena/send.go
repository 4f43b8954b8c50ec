// SPDX-License-Identifier: Apache-2.0

// athena send: send an event to members, and print the outcome at each of them.

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
		Short: "send an event to members, and print the result at each",
		Long: "send makes the node send an event to one member, or to all active members including\n" +
			"itself, and waits up to 15 seconds for their handlers. To the handlers, the sender is that\n" +
			"node. NAME is the type name of the event. JSON is an object with its fields, named as in Go\n" +
			"or by the msgpack tag; a time.Time cannot be sent.\n\n" +
			"send prints handled or the error for each member, and exits with 1 if any member has not\n" +
			"handled the event. Only programs have handlers; athena run has none." + needsWrite,
		Example: "  athena send Reload '{}'\n" +
			"  athena send Order '{\"ID\": 7, \"Item\": \"pen\"}' --to n2",
		Args: cli.Exactly("NAME", "JSON"),
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
			if !json.Valid([]byte(args[1])) {
				return ask.Reply{}, cli.Usage(fmt.Errorf("%q is not valid JSON: quote it for the shell, as "+
					`in '{"ID": 7}'`, args[1]))
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
	cmd.Flags().StringVar(&to, "to", "",
		"address or name of the recipient (default all active members)")
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
