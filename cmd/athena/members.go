// SPDX-License-Identifier: Apache-2.0

// athena members: list the members that a node sees.

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

func newMembers() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use: "members", Short: "list the members that a node sees", Args: cli.NoArguments,
		Long: "members prints the members that one node sees, with their status and who leads them.\n" +
			"Where no leader stands for that list, standard error says so.",
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			// The status says in one look who the leader of these members is.
			s, err := c.Status(ctx)
			return ask.Reply{
				Answer: s.View.Members,
				Table:  func(w io.Writer) { printMembers(w, s) },
				Note:   describeStaleness(s),
			}, err
		},
	})
}

// describeStaleness says of members that no leader with authority stands for what they
// are; empty where one does.
func describeStaleness(s adminapi.Status) string {
	_, quorate := s.LeaderOf()
	switch {
	case quorate:
		return ""
	case len(s.View.Members) == 0:
		return "no leader: the node has joined nothing yet; athena status says why"
	default:
		return fmt.Sprintf("no leader with authority: this is what the node holds from version "+
			"%d.%d; athena status says why", s.View.Version, s.View.Revision)
	}
}

func printMembers(w io.Writer, s adminapi.Status) {
	leader, quorate := s.LeaderOf()
	fmt.Fprintln(w, "NAME\tADDRESS\tSTATUS\tROLE\tSEED\tINCARNATION")
	for _, m := range s.View.Members {
		role, seed := "-", "-"
		switch {
		case quorate && m.Address == leader.Address:
			role = "leader"
		case m.Address == s.View.Leader:
			role = "leader without quorum"
		}
		if m.Seed {
			seed = "seed"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n",
			m.Name, m.Address, m.Status, role, seed, m.Incarnation)
	}
}
