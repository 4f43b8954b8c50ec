// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/latch"
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
			"again starts it anew, also where the node was gone.\n\n" +
			fmt.Sprintf(commandHelp, "leadership", "ATHENA_JOB is NAME.") + needsWrite +
			" Only to look it need not.",
		Example: "  athena elect billing -- /usr/local/bin/billing\n" +
			"  athena elect billing --listen -o json",
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if listen && len(args) > 1 {
				return usageError{errors.New("--listen only looks: leave the command out")}
			}
			if _, err := latch.LeaderKey(args[0]); err != nil {
				return usageError{fmt.Errorf("NAME %q: %w", args[0], err)}
			}
			end, err := h.begin(cmd, args)
			if err != nil {
				return err
			}
			defer end()
			if listen {
				return h.listen(args[0])
			}
			if h.command != nil {
				h.out = cmd.ErrOrStderr()
			}
			return h.elect(args[0])
		},
	}
	h.define(cmd)
	cmd.Flags().BoolVarP(&listen, "listen", "l", false, "only print who leads, and each change")
	return cmd
}

// listen prints who leads a job until it is interrupted.
func (h *holding) listen(job string) error {
	for leader, err := range h.client.JobLeader(h.signals, job) {
		if err == nil {
			err = h.print(leaderLine(leader))
		} else {
			err = h.explained(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// elect leads a job whenever it can, until it is interrupted or the command ends.
func (h *holding) elect(job string) error {
	ctx, cancel := context.WithCancelCause(h.signals)
	defer cancel(nil)
	print := func(l contestLine) {
		if err := h.print(l); err != nil {
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
			if why := context.Cause(ctx); why != nil && !errors.Is(why, errStopped) {
				print(contestLine{Type: adminapi.EventLost, Error: why.Error()})
			}
		}()
		if h.command != nil {
			return h.run(ctx, t, variableJob+"="+job)
		}
		<-ctx.Done()
		return nil
	})
	var ended commandError
	switch {
	case err == nil, errors.Is(err, errStopped):
		return nil
	case errors.As(err, &ended):
		return err
	case begun:
		return fmt.Errorf("%s is led through this node no more: %w", job, err)
	default:
		return h.explained(err)
	}
}

// contestLine is one change.
type contestLine struct {
	Time time.Time `json:"time"`
	Type string    `json:"type"`
	// JobLeader is nil where the line is not about who leads; a leader of null is nobody.
	*adminapi.JobLeader
	Token *adminapi.RecordToken `json:"token,omitempty"` // of what is held
	Error string                `json:"error,omitempty"`
}

func leaderLine(leader *adminapi.Holder) contestLine {
	return contestLine{Type: adminapi.EventLeader, JobLeader: &adminapi.JobLeader{Leader: leader}}
}

// print writes a line.
func (h *holding) print(l contestLine) error {
	h.printing.Lock()
	defer h.printing.Unlock()
	l.Time = time.Now()
	if h.output == "json" {
		return json.NewEncoder(h.out).Encode(l)
	}
	text := cell(l.Error)
	switch {
	case l.Token != nil:
		text = "token " + l.Token.String()
	case l.JobLeader != nil && l.Leader != nil:
		text = fmt.Sprintf("%s, token %s", namedText(l.Leader.Name, l.Leader.Address),
			l.Leader.Token.String())
	case l.JobLeader != nil:
		text = "nobody"
	}
	_, err := io.WriteString(h.out, fmt.Sprintf("%s  %-6s  %s\n",
		l.Time.Format("2006-01-02 15:04:05.000"), l.Type, text))
	return err
}
