// SPDX-License-Identifier: Apache-2.0

// athena events: print the recent changes of the members, and follow them with -f.

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

// maxEventLine limits the length of a printed line, since a server that is not an Athena node can
// send texts of any length.
const maxEventLine = 1000

var errNodeEnded = errors.New("the node or its admin API has stopped; run athena events again")

func newEvents() *cobra.Command {
	var q ask.Question
	var follow bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "print changes of members and leader, or follow them with -f",
		Long: "events prints the changes that the node remembers, up to 1,024 since its process\n" +
			"started, then a snapshot of its current state. With -f it prints the snapshot first, then\n" +
			"each change as it happens, and exits with 1 when the node stops. If the reader is too slow,\n" +
			"a lagged line reports how many changes it missed, and a new snapshot follows. Drains,\n" +
			"transfers and similar actions are changes too, with their caller.\n\n" +
			"With -o json each line is one event: an object with id, type (snapshot, member, leader,\n" +
			"action or lagged) and the details under the name of the type. A snapshot has the output of\n" +
			"athena status -o json.",
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
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing changes as they happen")
	return cmd
}

// printEvents writes one line for each event.
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

// timeOf returns the time of a change, or the current time for any other event.
func timeOf(e adminapi.Event) time.Time {
	switch {
	case e.Member != nil:
		return e.Member.Time
	case e.Leader != nil:
		return e.Leader.Time
	case e.Action != nil:
		return e.Action.Time
	default:
		return time.Now()
	}
}
