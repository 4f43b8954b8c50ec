// SPDX-License-Identifier: Apache-2.0

// athena elect: lead a job whenever no other member does, and run a command meanwhile.

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/command"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
)

func newElect() *cobra.Command {
	var h holding
	var listen bool
	cmd := &cobra.Command{
		Use:   "elect NAME [-- COMMAND ARGUMENT...]",
		Short: "lead a job whenever nobody else does, and run a command meanwhile",
		Long: "elect contends for the leadership of the job NAME through the node that it asks, until\n" +
			"it is interrupted, and prints each change: who leads, that it leads itself (held), and why\n" +
			"it leads no more (lost). With --listen it only looks.\n\n" +
			"A command runs whenever this athena leads, so that one of those that were started so runs\n" +
			"in the whole cluster, and the changes go to standard error. When the command ends by\n" +
			"itself, athena gives the leadership up and ends with its exit code: whatever starts athena\n" +
			"again starts it again, also if the node was gone.\n\n" +
			fmt.Sprintf(commandHelp, "leadership", "ATHENA_JOB is NAME.") + needsWrite +
			" Only to look it need not.",
		Example: "  athena elect billing -- /usr/local/bin/billing\n" +
			"  athena elect billing --listen -o json",
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if listen && len(args) > 1 {
				return cli.Usage(errors.New("--listen only looks: leave the command out"))
			}
			if _, err := election.JobKey(args[0]); err != nil {
				return cli.Usage(fmt.Errorf("NAME %q: %w", args[0], err))
			}
			end, err := h.readArguments(cmd, args)
			if err != nil {
				return err
			}
			defer end()
			if listen {
				return h.printLeaders(args[0])
			}
			if h.command != nil {
				h.out = cmd.ErrOrStderr()
			}
			return h.leadJob(args[0])
		},
	}
	h.defineFlags(cmd)
	cmd.Flags().BoolVarP(&listen, "listen", "l", false, "only print who leads, and each change")
	return cmd
}

// printLeaders prints who leads a job until it is interrupted.
func (h *holding) printLeaders(job string) error {
	for leader, err := range h.client.JobLeader(h.signals, job) {
		if err == nil {
			err = h.printLine(leaderLine(leader))
		} else {
			err = h.Explain(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leadJob leads a job whenever it can, until it is interrupted or the command ends.
func (h *holding) leadJob(job string) error {
	ctx, cancel := context.WithCancelCause(h.signals)
	defer cancel(nil)
	print := func(l contestLine) {
		if err := h.printLine(l); err != nil {
			cancel(err)
		}
	}
	begun := false
	err := h.client.Elect(ctx, job, func(leader *adminapi.Holder) {
		begun = true
		print(leaderLine(leader))
	}, func(ctx context.Context, t adminapi.RecordToken) error {
		print(contestLine{Type: adminapi.EventHeld, Token: &t})
		defer func() {
			if why := context.Cause(ctx); why != nil && !errors.Is(why, cli.ErrStopped) {
				print(contestLine{Type: adminapi.EventLost, Error: why.Error()})
			}
		}()
		if h.command != nil {
			return h.runCommand(ctx, t, settings.VariableJob+"="+job)
		}
		<-ctx.Done()
		return nil
	})
	var ended command.ExitCode
	switch {
	case err == nil, errors.Is(err, cli.ErrStopped):
		return nil
	case errors.As(err, &ended):
		return err
	case begun:
		return fmt.Errorf("%s is led through this node no more: %w", job, err)
	default:
		return h.Explain(err)
	}
}
