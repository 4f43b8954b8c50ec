// SPDX-License-Identifier: Apache-2.0

// athena leader, transfer and drain: print the leader, hand leadership over, and keep a node from
// leading until its process restarts.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

func newLeader() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use: "leader", Short: "print the leader, or fail if there is none", Args: cli.NoArguments,
		Long: "leader prints the name, address and token of the leader if a majority supports it.\n" +
			"Otherwise, or if the node does not respond, it prints the reason to standard error and\n" +
			"exits with 1.",
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			l, err := c.Leader(ctx)
			return ask.Reply{Answer: l, Table: func(w io.Writer) { printLeader(w, l) }}, err
		},
	})
}

func printLeader(w io.Writer, l adminapi.Leader) {
	fmt.Fprintln(w, "NAME\tADDRESS\tTOKEN")
	fmt.Fprintf(w, "%s\t%s\t%s\n", l.Name, l.Address, member.Token{Version: l.Token})
}

func newTransfer() *cobra.Command {
	var to string
	cmd := ask.NewCommand(ask.Verb{
		Use:   "transfer [MEMBER]",
		Short: "hand over leadership to another member",
		Long: "The leader hands over to the member given by name or address, or to any that can lead;\n" +
			"any node forwards the request to it. transfer waits up to 15 seconds for the new leader\n" +
			"and prints it. The old leader stays a member and can be elected again; athena drain\n" +
			"prevents that. If MEMBER does not respond within a heartbeat interval, another member\n" +
			"takes over.\n\n" +
			"The node and the leader must run with --admin-write.",
		Example: "  athena transfer\n  athena transfer n2",
		Args:    func(_ *cobra.Command, args []string) error { return checkTarget(args, "to", to) },
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
			to += strings.Join(args, "")
			h, err := c.Transfer(ctx, to)
			r := handedOver(h)
			at, _ := member.ParseAddress(to) // zero if it is a name
			if l := h.Leader; l != nil && to != "" && l.Name != to && l.Address != at {
				r.Note = to + " did not respond: another member took over"
			}
			return r, err
		},
	})
	cmd.Flags().StringVar(&to, "to", "",
		"same as MEMBER: name or address of the new leader (default any member that can lead)")
	return cmd
}

// checkTarget is checkMember for a verb with a flag that replaces its argument.
func checkTarget(args []string, flag, value string) error {
	if len(args) > 0 && value != "" {
		return fmt.Errorf("--%s replaces MEMBER: remove %q or --%[1]s", flag, args[0])
	}
	return checkMember(args, 1)
}

func newDrain() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use:   "drain [MEMBER]",
		Short: "keep a member from leading until its process restarts",
		Long: "The member, given by name or address, or the node itself hands over leadership, if it\n" +
			"leads, and lets other members lead until its process restarts. It stays a member, votes\n" +
			"and receives events. drain waits up to 15 seconds for another leader and prints it.\n\n" +
			"If no other member can lead, it keeps leading until one can, and drain exits with 1. A\n" +
			"drained member is elected only after two leader timeouts without a leader, and hands over\n" +
			"as soon as a member that is not drained can lead. athena prefer undoes it." + forwards,
		Example: "  athena drain --admin 127.0.0.1:7070\n  athena drain n2",
		Args:    func(_ *cobra.Command, args []string) error { return checkMember(args, 1) },
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
			h, err := c.Drain(ctx, strings.Join(args, ""))
			return handedOver(h), err
		},
	})
}

// forwards is the end of the help of each verb that a node forwards to another member.
const forwards = "\n\nThe node and the member must run with --admin-write."

// checkMember returns an error if there are more arguments than the limit, or if one is empty: an
// unset variable of a script must not stand for the node itself.
func checkMember(args []string, limit int) error {
	switch {
	case len(args) > limit:
		return fmt.Errorf("unexpected argument %q", args[limit])
	case slices.Contains(args, ""):
		return errors.New("an argument is empty")
	default:
		return nil
	}
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
