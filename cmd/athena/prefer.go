// SPDX-License-Identifier: Apache-2.0

// athena prefer and label: set what a node states about itself until its process restarts.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

func newPrefer() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use:   "prefer [MEMBER] NUMBER|never",
		Short: "set how much a member should lead until its process restarts",
		Long: "prefer sets the preference of a member, given by name or address, or of the node\n" +
			"itself. Of the members that can lead, one with the greatest preference is elected\n" +
			"first: 0 is the default, 100 the greatest. A member that never leads is a witness: it\n" +
			"only votes. prefer undoes athena drain; a restart, or a reload after --preference has\n" +
			"changed, returns to --preference.\n\n" +
			"prefer never waits up to 15 seconds for another leader, and exits with 1 if no other\n" +
			"member can lead: the member then leads until one can. A greater preference does not\n" +
			"replace a working leader unless the nodes run with --hand-over-to-preferred." + forwards,
		Example: "  athena prefer 2 --admin 127.0.0.1:7070\n" +
			"  athena prefer n2 never",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("NUMBER, or never, is missing")
			}
			return checkMember(args, 2)
		},
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
			p, err := member.ParsePreference(args[len(args)-1])
			if err != nil {
				return ask.Reply{}, cli.Usage(err)
			}
			h, err := c.Prefer(ctx, strings.Join(args[:len(args)-1], ""), p)
			return handedOver(h), err
		},
	})
}

func newLabel() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use:   "label KEY=VALUE|KEY-...",
		Short: "set and remove labels of a node until its process restarts",
		Long: "label sets each KEY=VALUE, removes each KEY-, and prints all labels of the node. Other\n" +
			"labels stay; a restart, or a reload after --label has changed, returns to --label. athena\n" +
			"members shows the labels of all members, which learn them from the leader." + needsWrite,
		Example: "  athena label zone=b --admin 127.0.0.1:7070\n" +
			"  athena label role=db rack-",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("KEY=VALUE or KEY- is missing")
			}
			return nil
		},
		Ask: func(ctx context.Context, c *adminclient.Client, args []string) (ask.Reply, error) {
			change, err := parseLabels(args)
			if err != nil {
				return ask.Reply{}, cli.Usage(err)
			}
			all, err := c.Label(ctx, change)
			return ask.Reply{Answer: all, Table: func(w io.Writer) {
				for _, key := range slices.Sorted(maps.Keys(all.Labels)) {
					fmt.Fprintf(w, "%s=%s\n", key, all.Labels[key])
				}
			}}, err
		},
	})
}

// parseLabels returns the labels to set and, with the value nil, those to remove.
func parseLabels(args []string) (map[string]*string, error) {
	labels := map[string]*string{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		set := ok
		if !set {
			key, ok = strings.CutSuffix(arg, "-")
		}
		if !ok || key == "" {
			return nil, fmt.Errorf("%q: want KEY=VALUE, or KEY- to remove a label", arg)
		}
		if _, twice := labels[key]; twice {
			return nil, fmt.Errorf("%q: the label %s is given twice", arg, key)
		}
		if labels[key] = nil; set {
			labels[key] = &value
		}
	}
	return labels, nil
}
