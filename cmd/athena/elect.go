// SPDX-License-Identifier: Apache-2.0

// athena elect: campaign for the leadership of a job, and run a command while leading.

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
)

func newElect() *cobra.Command {
	var h heldVerb
	var listen bool
	cmd := &cobra.Command{
		Use:   "elect NAME [-- COMMAND ARGUMENT...]",
		Short: "lead a job, and run a command while leading",
		Long: "elect campaigns for the leadership of the job NAME through a node until it is\n" +
			"interrupted. It prints each change: a new leader, held when this process starts leading,\n" +
			"and lost, with the reason, when it stops. With --listen it prints only the leader.\n\n" +
			"With a COMMAND, elect runs it while this process leads, so that only one runs in the\n" +
			"cluster, and prints the changes to standard error. When the command exits, elect gives up\n" +
			"the leadership and exits with the same code. Run elect under a supervisor that restarts\n" +
			"it: it also exits if the node stops.\n\n" +
			fmt.Sprintf(commandHelp, "leadership", "ATHENA_JOB is set to NAME.") + needsWrite +
			" --listen does not need it.",
		Example: "  athena elect billing -- /usr/local/bin/billing\n" +
			"  athena elect billing --listen -o json",
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if listen && len(args) > 1 {
				return cli.Usage(errors.New("--listen runs no command: remove one of them"))
			}
			if _, err := election.JobKey(args[0]); err != nil {
				return cli.Usage(fmt.Errorf("NAME %q: %w", args[0], err))
			}
			end, err := h.prepareCommand(cmd, args)
			if err != nil {
				return err
			}
			defer end()
			if listen {
				return h.printLeaders(args[0])
			}
			return h.leadJob(args[0])
		},
	}
	h.defineFlags(cmd)
	h.defineHolder(cmd)
	cmd.Flags().BoolVarP(&listen, "listen", "l", false,
		"print the leader and each change; do not campaign")
	return cmd
}

// printLeaders prints the leader of a job and each change of leader, until interrupted.
func (h *heldVerb) printLeaders(job string) error {
	for leader, err := range h.client.JobLeader(h.signals, job) {
		if err == nil {
			err = h.printLine(leaderLine(leader))
		} else {
			err = cli.CodeError{Code: cli.ExitNode, Err: h.Explain(err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leadJob campaigns for a job until it is interrupted or the command exits.
func (h *heldVerb) leadJob(job string) error {
	work := func(ctx context.Context, t adminapi.RecordToken) error {
		return h.runCommand(ctx, t, settings.VariableJob+"="+job)
	}
	return h.leadByStream(job, work, func(
		ctx context.Context, onLeader func(*adminapi.Holder), fn workFunc,
	) error {
		return h.client.Elect(ctx, job, onLeader, fn)
	})
}

// workFunc is a function that runs while this process leads.
type workFunc = func(ctx context.Context, t adminapi.RecordToken) error

// leadByStream calls the function campaign for a job or group, and prints each change. If there is
// a command, leadByStream runs the function work while this process leads.
func (h *heldVerb) leadByStream(
	name string, work workFunc,
	campaign func(ctx context.Context, onLeader func(*adminapi.Holder), fn workFunc) error,
) error {
	if h.command != nil {
		h.out = h.errOut
	}
	ctx, cancel := context.WithCancelCause(h.signals)
	defer cancel(nil)
	print := func(l changeLine) {
		if err := h.printLine(l); err != nil {
			cancel(err)
		}
	}
	begun := false
	err := campaign(ctx, func(leader *adminapi.Holder) {
		begun = true
		print(leaderLine(leader))
	}, func(ctx context.Context, t adminapi.RecordToken) error {
		print(changeLine{Type: adminapi.EventHeld, Token: &t})
		defer func() {
			if why := context.Cause(ctx); why != nil && !errors.Is(why, cli.ErrStopped) {
				print(changeLine{Type: adminapi.EventLost, Error: why.Error()})
			}
		}()
		if h.command != nil {
			return work(ctx, t)
		}
		<-ctx.Done()
		return nil
	})
	switch {
	case err == nil, errors.Is(err, cli.ErrStopped):
		return nil
	case endsCommand(err):
		return err
	case begun:
		err = fmt.Errorf("stopped campaigning for %s: %w", name, err)
	default:
		err = h.Explain(err)
	}
	return cli.CodeError{Code: cli.ExitNode, Err: err}
}
