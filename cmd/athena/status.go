// SPDX-License-Identifier: Apache-2.0

// athena status: print the state of a node and its view of the cluster.

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/member"
)

func newStatus() *cobra.Command {
	all := false
	cmd := ask.NewCommand(ask.Verb{
		Use: "status", Short: "print the state of a node and of its cluster",
		Args: cli.NoArguments,
		Long: "status prints the identity and role of one node, the leader or the reason why there is\n" +
			"none, the last election, and refused handshakes. -o json prints the response of\n" +
			"GET /v1/status.\n\n" +
			"With --all it prints what each node sees, one line for each; what differs from most nodes\n" +
			"begins with \"!\". It asks every node of --admin, if there are several, or else the members\n" +
			"through the one node.",
		Example: "  athena status --admin 127.0.0.1:7071\n" +
			"  ATHENA_ADMIN=unix:/run/athena/admin athena status -o json\n" +
			"  athena status --all --admin host1:7070,host2:7070,host3:7070",
		Ask: func(ctx context.Context, c *adminclient.Client, _ []string) (ask.Reply, error) {
			if all {
				return askAll(ctx, c)
			}
			s, err := c.Status(ctx)
			return ask.Reply{Answer: s, Table: func(w io.Writer) { printStatus(w, s) }}, err
		},
	})
	cmd.Flags().BoolVar(&all, "all", false, "print what each node sees, and mark differences")
	return cmd
}

// nameWithAddress returns "NAME at ADDRESS", or the address of a node without a name.
func nameWithAddress(name string, a member.Address) string {
	if name == "" || name == a.String() {
		return a.String()
	}
	return name + " at " + a.String()
}

// printElection prints the cause, the votes and the steps of the last election.
func printElection(line func(name, format string, args ...any), e adminapi.Election) {
	cause := string(e.Cause)
	if e.Rule != "" {
		cause += " (" + e.Rule + ")"
	}
	if !e.Before.IsZero() && e.Before != e.Leader {
		cause += " of " + e.Before.String()
	}
	line("last election", "version %d, %s, %.0f ms without a leader", e.Version, cause, e.TookMS)
	if len(e.Votes) > 0 {
		line("votes", "%s (known to this node)", joinAddresses(e.Votes))
	}
	if len(e.Steps) > 0 {
		var steps []string
		for _, s := range e.Steps {
			steps = append(steps, fmt.Sprintf("%s %.0f ms", s.Name, s.AfterMS))
		}
		line("steps", "%s", strings.Join(steps, ", "))
	}
}

func joinAddresses(addresses []member.Address) string {
	var names []string
	for _, a := range addresses {
		names = append(names, a.String())
	}
	return strings.Join(names, ", ")
}

func printStatus(w io.Writer, s adminapi.Status) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	role, when := s.Role, ""
	if s.Role == member.Seeking.String() && s.View.Version > 0 {
		// The view comes from the store, since the node has not rejoined its cluster yet.
		role += fmt.Sprintf(" (holds version %d.%d)", s.View.Version, s.View.Revision)
		when = " then"
	}
	if s.Drained {
		role += ", drained: it leads only if no other member can"
	}
	line("node", "%s, %s", nameWithAddress(s.Self.Name, s.Self.Address), role)
	line("cluster", "%s, %d of %d members active%s, %d make a majority",
		s.Cluster, s.Active(), s.Size, when, s.Quorum)
	if l, ok := s.LeaderOf(); ok {
		line("leader", "%s, token %s", nameWithAddress(l.Name, l.Address),
			member.Token{Version: l.Token})
		for _, a := range s.OtherSeeds { // without a leader, NoLeader includes them
			line("seeds", "%s has different --seeds: use the same list on every node of a cluster", a)
		}
		for _, m := range s.MissingSeeds {
			line("missing", "seed %s: %s", m.Address, m.Why)
		}
		for _, f := range s.PeerFaults {
			if !slices.Contains(s.MissingSeeds, adminapi.MissingSeed(f)) {
				line("fault", "%s: %s", f.Address, f.Why)
			}
		}
	} else {
		line("leader", "none with authority")
		line("why", "%s", s.NoLeader)
	}
	if s.IsLeader() {
		line("lease", "%.0f ms left", s.LeaseRemainingMS)
	}
	if s.NotSaving != "" {
		line("disk", "%s: do not restart another node", s.NotSaving)
	}
	line("view", "version %d, revision %d", s.View.Version, s.View.Revision)
	if e := s.LastElection; e != nil {
		printElection(line, *e)
	}
	if n := s.Handshakes[mesh.ResultCertificate.String()]; n > 0 {
		line("refused", "%d handshakes with a wrong secret or certificate since the start", n)
	}
	if h := s.Events.Slowest; h != nil {
		line("slow handler", "%s from %s, running for %.0f s, %d events waiting",
			h.Event, h.From, h.RunningMS/1000, h.Waiting)
	}
	up := time.Duration(s.UptimeMS * float64(time.Millisecond)).Round(time.Second)
	line("running", "%v, %s, protocol %d", up, s.Build, s.Protocol)
}
