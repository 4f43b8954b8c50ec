// SPDX-License-Identifier: Apache-2.0

// athena group: take part in the election of a group, and run a command while leading.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/command"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

func newGroup() *cobra.Command {
	var h heldVerb
	var g settings.Group
	cmd := &cobra.Command{
		Use:   "group NAME --strategy STRATEGY [-- COMMAND ARGUMENT...]",
		Short: "take part in a group, and run a command while leading",
		Long: "group makes a node a member of the group NAME until this process is interrupted or\n" +
			"cut off from the node. The strategy decides who leads:\n\n" +
			"  quorum   the leader of the cluster\n" +
			"  lowest   the lowest address in each partition, as in Hyperledger Fabric\n" +
			"  static   this process, always\n" +
			"  standby  never this process\n\n" +
			"With lowest, two processes may lead at the same time, and ATHENA_TOKEN does not stop the\n" +
			"writes of one of them; static does not stop other leaders either.\n\n" +
			"All members use the same strategy, except that static and standby may be mixed. A node\n" +
			"takes part in a group once: a second process is refused. The output is that of elect.\n\n" +
			"When the command exits, group exits with the same code. Run it under a supervisor: it also\n" +
			"exits if the node stops.\n\n" +
			"If --retry-for is set, a command that fails is run again after a pause. When the pauses\n" +
			"add up to more than --retry-for, this process gives up the leadership, and does not lead\n" +
			"before another process has led or --hold has passed.\n\n" +
			"The file of --config may set these flags under groups.NAME, without dashes or by the\n" +
			"names in Fabric's core.yaml, such as leaderAliveThreshold; useLeaderElection: true is\n" +
			"lowest, and orgLeader: true is static. athena config check checks it.\n\n" +
			fmt.Sprintf(commandHelp, "leadership", "ATHENA_GROUP is set to NAME.") + needsWrite,
		Example: "  athena group delivery --strategy lowest -- /usr/local/bin/deliver\n" +
			"  athena group delivery --config athena.yaml -- /usr/local/bin/deliver",
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if len(name) > election.MaxGroupBytes || name == "" || !member.IsPrintable(name) {
				return cli.Usage(fmt.Errorf("NAME %.100q: must have 1 to %d printable characters", name,
					election.MaxGroupBytes))
			}
			err := settings.FromEnvironment(cmd.Flags(), os.Getenv, settings.ConfigFlag)
			if err != nil {
				return err
			}
			o, err := g.Read(cmd.Flags(), name)
			if err != nil {
				return err
			}
			end, err := h.prepareCommand(cmd, args)
			if err != nil {
				return err
			}
			defer end()
			return h.joinGroup(name, o)
		},
	}
	g.Define(cmd.Flags())
	h.defineFlags(cmd)
	return cmd
}

// joinGroup takes part in a group until it is interrupted or the command exits.
func (h *heldVerb) joinGroup(name string, o election.Options) error {
	request := adminapi.GroupRequest{
		Strategy:   o.Strategy.String(),
		GraceMS:    adminapi.Milliseconds(o.Timing.Grace),
		SampleMS:   adminapi.Milliseconds(o.Timing.Sample),
		AliveMS:    adminapi.Milliseconds(o.Timing.Alive),
		CampaignMS: adminapi.Milliseconds(o.Timing.Campaign),
		HoldMS:     adminapi.Milliseconds(o.Timing.Hold),
		RetryForMS: adminapi.Milliseconds(o.RetryFor),
	}
	work := func(ctx context.Context, t adminapi.RecordToken) error {
		err := h.runCommand(ctx, t, settings.VariableGroup+"="+name)
		var code command.ExitCode
		if o.RetryFor == 0 || ctx.Err() != nil || !errors.As(err, &code) || code == 0 {
			return err
		}
		if h.client.FailGroup(ctx, name) != nil && ctx.Err() == nil {
			return err
		}
		<-ctx.Done() // the node ends the term, or runs the work again in it
		return nil
	}
	return h.leadByStream(name, work, func(
		ctx context.Context, onLeader func(*adminapi.Holder), fn workFunc,
	) error {
		return h.client.Group(ctx, name, request, onLeader, fn)
	})
}
