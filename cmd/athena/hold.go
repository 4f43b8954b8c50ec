// SPDX-License-Identifier: Apache-2.0

// What lock and elect have in common: the flags, the command and its environment.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/command"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

const (
	// defaultKillAfter is how long a command may take to end.
	defaultKillAfter = 10 * time.Second
)

// holding is a verb that holds something, with or without a command.
type holding struct {
	ask.Question
	killAfter time.Duration

	client  *adminclient.Client
	signals *command.Interrupts
	command *command.Command // nil for none

	printing sync.Mutex
	out      io.Writer
}

func (h *holding) defineFlags(cmd *cobra.Command) {
	h.Question.Define(cmd.Flags())
	cmd.Flags().DurationVar(&h.killAfter, "kill-after", defaultKillAfter,
		"how long after SIGTERM a command that still runs gets SIGKILL")
}

// readArguments reads the command line; end undoes it.
func (h *holding) readArguments(cmd *cobra.Command, args []string) (end func(), err error) {
	if h.killAfter <= 0 {
		return nil, cli.Usage(fmt.Errorf("--kill-after %v: must be above 0", h.killAfter))
	}
	if h.command, err = command.New(cmd, args[1:]); err != nil {
		return nil, err
	}
	if h.client, err = h.Question.Client(cmd); err != nil {
		return nil, err
	}
	h.signals, h.out = command.NewInterrupts(), cmd.OutOrStdout()
	if h.command != nil {
		h.command.Signals, h.command.KillAfter = h.signals, h.killAfter
	}
	return h.signals.Stop, nil
}

// runCommand runs the command while something is held by a token.
func (h *holding) runCommand(ctx context.Context, t adminapi.RecordToken, variable string) error {
	n, err := member.Token(t).Int64()
	if err != nil {
		return err
	}
	return h.command.Run(ctx, settings.VariableToken+"="+strconv.FormatInt(n, 10),
		settings.VariableVersion+"="+strconv.FormatUint(t.Version, 10),
		settings.VariableRevision+"="+strconv.FormatUint(t.Revision, 10), variable)
}

// oneName wants a name, and a command behind --, where there is one.
func oneName(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return errors.New("NAME is missing")
	case dash < 0 && len(args) > 1 || dash > 1:
		return fmt.Errorf("unexpected argument %q: a command comes after --", args[1])
	case dash == 1 && len(args) == 1:
		return errors.New("the command is missing after --")
	default:
		return nil
	}
}

// commandHelp says in the help of two verbs how a command runs.
const commandHelp = "" +
	"The command has the streams of athena, and gets its signals. If the %[1]s is lost, the\n" +
	"command and all that it has started get SIGTERM, and SIGKILL after --kill-after. The %[1]s\n" +
	"also counts as lost when the node ends, or is silent for longer than it can be sure to hold\n" +
	"it. On Linux the command gets SIGTERM if athena is killed. Only storage that compares tokens\n" +
	"refuses what the command writes in the meantime.\n\n" +
	"In its environment ATHENA_TOKEN is the fencing token as one number that grows each time:\n" +
	"ATHENA_TOKEN_VERSION x 10^12 + ATHENA_TOKEN_REVISION. %[2]s"

// namedText is named for texts that a node has sent.
func namedText(name, address string) string {
	if name == "" || name == address {
		return cli.Cell(address)
	}
	return cli.Cell(name) + " at " + cli.Cell(address)
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

// printLine writes a line.
func (h *holding) printLine(l contestLine) error {
	h.printing.Lock()
	defer h.printing.Unlock()
	l.Time = time.Now()
	if h.Output == "json" {
		return json.NewEncoder(h.out).Encode(l)
	}
	text := cli.Cell(l.Error)
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
