// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

// needsWrite is what the help of each verb that acts says at its end.
const needsWrite = "\n\nThe node must have been started with --admin-write."

func newSend() *cobra.Command {
	var to string
	cmd := newQuestion(asking{
		use:   "send NAME JSON",
		short: "send an event to members, and say what became of it",
		long: "send gives an event to one member, or to all that are active, the one that is asked\n" +
			"among them, and waits up to 15 seconds for the handlers there. The handlers take it for\n" +
			"one of that node. NAME is the name of the event's type; JSON has its fields by the names\n" +
			"that they have in Go, or in the tag `msgpack`. A time.Time cannot be sent so.\n\n" +
			"It prints for each member `handled`, or why not, and ends with 1 where one of them has\n" +
			"not handled it. Programs have handlers for events; athena run has none." + needsWrite,
		example: "  athena send Reload '{}'\n" +
			"  athena send Order '{\"ID\": 7, \"Item\": \"pen\"}' --to n2",
		args: exactly("NAME", "JSON"),
		ask: func(ctx context.Context, c *adminclient.Client, args []string) (reply, error) {
			if !json.Valid([]byte(args[1])) {
				return reply{}, usageError{fmt.Errorf("%q is no JSON value: quote it for the shell, as in "+
					`'{"ID": 7}'`, args[1])}
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
			r := reply{answer: sent, table: func(w io.Writer) { printSent(w, sent) }}
			if failed > 0 {
				r.failed = fmt.Errorf("%d of %d members have not handled the event",
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

func newTransfer() *cobra.Command {
	var to string
	cmd := newQuestion(asking{
		use:   "transfer",
		short: "let the leader hand leadership over",
		long: "transfer makes the node that is asked, which must lead, hand leadership over to\n" +
			"another member, and waits up to 15 seconds until one leads. It prints the new leader. The\n" +
			"old one stays a member, and may lead again; see athena drain. If the member given by --to\n" +
			"does not answer for a heartbeat interval, another one leads in its place." + needsWrite,
		example: "  athena transfer\n  athena transfer --to n2",
		args:    noArguments,
		ask: func(ctx context.Context, c *adminclient.Client, _ []string) (reply, error) {
			h, err := c.Transfer(ctx, to)
			r := handedOver(h)
			if l := h.Leader; l != nil && to != "" && l.Name != to && l.Address.String() != to {
				r.note = to + " did not answer: another member leads in its place"
			}
			return r, err
		},
	})
	cmd.Flags().StringVar(&to, "to", "",
		"address or name of the member that is to lead (default any that can)")
	return cmd
}

func newDrain() *cobra.Command {
	return newQuestion(asking{
		use:   "drain",
		short: "keep a node from leading, for the rest of its run",
		long: "drain lets the node that is asked hand leadership over, if it leads, and lets other\n" +
			"members lead until its process is restarted: there is no way back before. It stays a\n" +
			"member, votes and gets events. drain waits up to 15 seconds until another member leads,\n" +
			"and prints it. Where no other member can, the node leads on until one can, and drain ends\n" +
			"with 1. A drained node is elected only if there was no leader for two leader timeouts, and\n" +
			"hands over as soon as a member that is not drained can lead." +
			needsWrite,
		example: "  athena drain --admin 127.0.0.1:7070",
		args:    noArguments,
		ask: func(ctx context.Context, c *adminclient.Client, _ []string) (reply, error) {
			h, err := c.Drain(ctx)
			return handedOver(h), err
		},
	})
}

// handedOver prints who leads, as athena leader does.
func handedOver(h adminapi.HandedOver) reply {
	r := reply{answer: h, table: func(w io.Writer) {
		if h.Leader != nil {
			printLeader(w, *h.Leader)
		}
	}}
	if h.Leader == nil {
		r.note = "nobody leads with authority at the moment; athena leader asks again"
	}
	return r
}

func newLeave() *cobra.Command {
	return newQuestion(asking{
		use:   "leave",
		short: "let a node leave its cluster in order, and end",
		long: "leave does what SIGTERM does to the node that is asked: it hands leadership over,\n" +
			"tells the others, and ends with 0. The answer comes before: leave does not wait for the\n" +
			"end. What starts processes again when they end, starts this one again too." + needsWrite,
		example: "  athena leave --admin unix:/run/athena/admin.sock",
		args:    noArguments,
		ask: func(ctx context.Context, c *adminclient.Client, _ []string) (reply, error) {
			err := c.Leave(ctx)
			return reply{answer: adminapi.Done{Status: "leaving"}, table: func(w io.Writer) {
				fmt.Fprintln(w, "the node leaves")
			}}, err
		},
	})
}

// exactly wants one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > len(names) {
			return fmt.Errorf("unexpected argument %q: quote what has spaces", args[len(names)])
		}
		for _, name := range names[len(args):] {
			return errors.New(name + " is missing")
		}
		return nil
	}
}
