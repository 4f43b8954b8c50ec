// SPDX-License-Identifier: Apache-2.0

// athena events: print what changed among the members, and follow it with -f.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/safetext"
)

// maxEventLine bounds a line that is printed for an event: it may come from something
// that is no node.
const maxEventLine = 1000

var errNodeEnded = errors.New("the node has ended, or its admin API; start athena events again")

func newEvents() *cobra.Command {
	var q ask.Question
	var follow bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "print what changed among the members, and go on with -f",
		Long: "events prints the changes that the node remembers, up to 1,024 of this run of its\n" +
			"process, and then how things are. With -f it prints how things are, and then each change as\n" +
			"it comes, until it is stopped; it ends with 1 when the node does. A reader that is too slow\n" +
			"is told how many changes it missed, and how things are then.\n\n" +
			"With -o json each event is one line: an object with id, type (snapshot, member, leader or\n" +
			"lagged), and what there is to say under the name of the type. A snapshot is what athena\n" +
			"status -o json prints.",
		Example: "  athena events\n" +
			"  athena events -f -o json | jq -r 'select(.leader) | .leader.name'",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := q.Client(cmd)
			if err != nil {
				return err
			}
			events := c.Recent(cmd.Context())
			if follow {
				events = c.Events(cmd.Context(), "")
			}
			err = printEvents(cmd.OutOrStdout(), &q, events)
			if err == nil && follow {
				err = errNodeEnded
			}
			return err
		},
	}
	q.Define(cmd.Flags())
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is to come")
	return cmd
}

// printEvents writes events, a line each.
func printEvents(w io.Writer, q *ask.Question, events iter.Seq2[adminapi.Event, error]) error {
	out := json.NewEncoder(w)
	for e, err := range events {
		if err != nil {
			return q.Explain(err)
		}
		if q.Output == "json" {
			err = out.Encode(e)
		} else {
			_, err = fmt.Fprintf(w, "%s  %-8s  %s\n", timeOf(e).Local().Format("2006-01-02 15:04:05.000"),
				safetext.OneLine(e.Type, maxEventLine), safetext.OneLine(e.String(), maxEventLine))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// timeOf is when a change was seen; what is no change is of now.
func timeOf(e adminapi.Event) time.Time {
	switch {
	case e.Member != nil:
		return e.Member.Time
	case e.Leader != nil:
		return e.Leader.Time
	default:
		return time.Now()
	}
}
