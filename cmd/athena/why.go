// SPDX-License-Identifier: Apache-2.0

// athena why: tell why there is no leader, or why it changed.

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

// causeTexts explain why there was no leader.
var causeTexts = map[cluster.Cause]string{
	cluster.CauseStart:     "%s had no leader before: it started",
	cluster.CauseCrash:     "the host of %s refused connections: the process had ended",
	cluster.CauseSilence:   "nothing was heard from %s for the leader timeout",
	cluster.CauseReplaced:  "another store took the address of %s",
	cluster.CauseHandOver:  "%s handed over",
	cluster.CauseLeaseLost: "%s lost its lease: it heard no majority, or was paused",
	cluster.CauseConflict:  "%s led at the same time, with the worse claim",
	cluster.CauseOutvoted:  "others elected a leader before this node missed %s",
	cluster.CauseRaised:    "%s was elected again with a later version, which a member had asked for",
}

func newWhy() *cobra.Command {
	return ask.NewCommand(ask.Verb{
		Use: "why", Short: "tell why there is no leader, or why it changed", Args: cli.NoArguments,
		Long: "why prints the leader or the reason why no member leads, and why the leader changed\n" +
			"last, as one node saw it. Other nodes may have seen another cause.",
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			s, err := c.Status(ctx)
			return ask.Reply{
				Answer: whyAnswer{s.NoLeader, s.NotSaving, s.PeerFaults, s.LastElection, s.TermSince},
				Table:  func(w io.Writer) { printWhy(w, s) },
			}, err
		},
	})
}

// whyAnswer is the output of athena why -o json.
type whyAnswer struct {
	NoLeader     string               `json:"no_leader"`
	NotSaving    string               `json:"not_saving"`
	PeerFaults   []adminapi.PeerFault `json:"peer_faults"`
	LastElection *adminapi.Election   `json:"last_election"`
	TermSince    *time.Time           `json:"term_since"`
}

func printWhy(w io.Writer, s adminapi.Status) {
	if l, ok := s.LeaderOf(); ok {
		fmt.Fprintf(w, "%s leads", nameWithAddress(l.Name, l.Address))
		if s.TermSince != nil {
			fmt.Fprintf(w, ", seen since %s", s.TermSince.Format(time.RFC3339))
		}
		fmt.Fprintln(w, ".")
		for _, f := range s.PeerFaults {
			fmt.Fprintf(w, "%s: %s.\n", f.Address, f.Why)
		}
	} else {
		fmt.Fprintf(w, "No leader with authority: %s.\n", strings.TrimSuffix(s.NoLeader, "."))
	}
	if s.NotSaving != "" {
		fmt.Fprintf(w, "disk: %s: do not restart another node.\n", s.NotSaving)
	}
	e := s.LastElection
	if e == nil {
		return
	}
	before := "the leader"
	switch {
	case e.Cause == cluster.CauseStart:
		before = nameWithAddress(s.Self.Name, s.Self.Address)
	case !e.Before.IsZero():
		before = e.Before.String()
	}
	why := string(e.Cause)
	if text, known := causeTexts[e.Cause]; known {
		why = fmt.Sprintf(text, before)
	}
	fmt.Fprintf(w, "The last change, to version %d of %s after %.0f ms without a leader: %s.\n",
		e.Version, e.Leader, e.TookMS, why)
}
