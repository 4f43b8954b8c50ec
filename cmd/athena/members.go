// SPDX-License-Identifier: Apache-2.0

// athena members: list the members in a node's view.

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

func newMembers() *cobra.Command {
	labels := map[string]string{}
	cmd := ask.NewCommand(ask.Verb{
		Use: "members", Short: "list the members of the cluster", Args: cli.NoArguments,
		Long: "members prints the members as one node sees them, with their status, preference and\n" +
			"labels, and the leader. The node asks each member for its build; BUILD is - if the member\n" +
			"does not answer within 300 ms. If no leader confirms the list, members prints a note on\n" +
			"standard error.",
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			// A single status contains the members and the leader as of the same moment.
			s, err := c.Status(ctx)
			if err != nil {
				return ask.Reply{}, err
			}
			built, err := c.Members(ctx)
			note := describeStaleness(s)
			s.View.Members = withBuilds(s.View.Members, built)
			s.View.Members = withLabels(s.View.Members, labels)
			return ask.Reply{
				Answer: s.View.Members,
				Table:  func(w io.Writer) { printMembers(w, s) },
				Note:   note,
			}, err
		},
	})
	cmd.Flags().StringToStringVar(&labels, "label", nil, "list only members with this `KEY=VALUE`")
	return cmd
}

// withBuilds returns the members with the builds that the same members have in built.
func withBuilds(members, built []adminapi.Member) []adminapi.Member {
	for i, m := range members {
		for _, b := range built {
			if b.Address == m.Address {
				members[i].Build = b.Build
			}
		}
	}
	return members
}

// withLabels returns the members that have all of the labels.
func withLabels(members []adminapi.Member, want map[string]string) []adminapi.Member {
	return slices.DeleteFunc(members, func(m adminapi.Member) bool {
		for key, value := range want {
			if got, ok := m.Labels[key]; !ok || got != value {
				return true
			}
		}
		return false
	})
}

// describeStaleness returns a note if no leader confirms the list of members, and "" otherwise.
func describeStaleness(s adminapi.Status) string {
	_, quorate := s.LeaderOf()
	switch {
	case quorate:
		return ""
	case len(s.View.Members) == 0:
		return "no leader: the node has not joined a cluster; athena status shows why"
	default:
		return fmt.Sprintf("no leader with authority: this view may be outdated (version %d.%d); "+
			"athena status shows why", s.View.Version, s.View.Revision)
	}
}

func printMembers(w io.Writer, s adminapi.Status) {
	leader, quorate := s.LeaderOf()
	fmt.Fprintln(w, "NAME\tADDRESS\tSTATUS\tROLE\tSEED\tINCARNATION\tPREFERENCE\tLABELS\tBUILD")
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
		labels, _ := member.NewLabels(m.Labels) // valid on every node
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", m.Name, m.Address, m.Status, role, seed,
			m.Incarnation, member.Preference(m.Preference), cmp.Or(labels.String(), "-"),
			cmp.Or(m.Build, "-"))
	}
}
