// SPDX-License-Identifier: Apache-2.0

// This file contains the code shared by lock, elect and group: the flags, the command and its
// environment.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

// defaultKillAfter is the time between SIGTERM and SIGKILL for the group of the command.
const defaultKillAfter = 10 * time.Second

// heldVerb is one of the verbs lock, elect and group. It holds a lock or leads, with or without a
// command.
type heldVerb struct {
	ask.Question
	killAfter time.Duration
	holder    string // text of this process in athena jobs

	client  *adminclient.Client
	signals *command.Interrupts
	command *command.Command // nil if there is no command

	printing sync.Mutex
	out      io.Writer
	errOut   io.Writer
}

func (h *heldVerb) defineFlags(cmd *cobra.Command) {
	h.Question.Define(cmd.Flags())
	cmd.Flags().DurationVar(&h.killAfter, "kill-after", defaultKillAfter,
		"time between SIGTERM and SIGKILL for the processes of the command")
}

// defineHolder defines the flag of lock and elect that names this process.
func (h *heldVerb) defineHolder(cmd *cobra.Command) {
	cmd.Flags().StringVar(&h.holder, "holder", "",
		"`TEXT` that athena jobs shows for this process; default: its host and process ID")
}

// checkHolder sets the default of --holder, and checks it.
func (h *heldVerb) checkHolder() error {
	if h.holder == "" {
		host, _ := os.Hostname() // without it the process ID must do
		h.holder = safetext.OneLine(fmt.Sprint(host, " pid ", os.Getpid()), adminapi.MaxCallerBytes)
	}
	if len(h.holder) > adminapi.MaxCallerBytes || !member.IsPrintable(h.holder) {
		return cli.Usage(fmt.Errorf("--holder %.120q: must be at most %d printable bytes", h.holder,
			adminapi.MaxCallerBytes))
	}
	return nil
}

// prepareCommand checks the flags, makes the client and the command, and receives signals until end
// is called.
func (h *heldVerb) prepareCommand(cmd *cobra.Command, args []string) (end func(), err error) {
	if h.killAfter <= 0 {
		return nil, cli.Usage(fmt.Errorf("--kill-after %v: must be positive", h.killAfter))
	}
	if err := h.checkHolder(); err != nil {
		return nil, err
	}
	if h.command, err = command.New(cmd, args[1:]); err != nil {
		return nil, err
	}
	if h.client, err = h.Question.Client(cmd, adminclient.WithCaller(h.holder)); err != nil {
		return nil, err
	}
	h.signals = command.NewInterrupts()
	h.out, h.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if h.command != nil {
		h.command.Signals, h.command.KillAfter = h.signals, h.killAfter
	}
	return h.signals.Stop, nil
}

// runCommand runs the command with the token and the given variable in its environment, until it
// exits or ctx ends.
func (h *heldVerb) runCommand(ctx context.Context, t adminapi.RecordToken, variable string) error {
	n, err := member.Token(t).Int64()
	if err != nil {
		return err
	}
	return h.command.Run(ctx, settings.VariableToken+"="+strconv.FormatInt(n, 10),
		settings.VariableVersion+"="+strconv.FormatUint(t.Version, 10),
		settings.VariableRevision+"="+strconv.FormatUint(t.Revision, 10), variable)
}

// endsCommand reports whether err is the exit code of the command, or the reason why it could not
// be started.
func endsCommand(err error) bool {
	_, ended := errors.AsType[command.ExitCode](err)
	_, coded := errors.AsType[cli.CodeError](err)
	return ended || coded
}

// oneName accepts a NAME, optionally followed by -- and a command.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || cmd.ArgsLenAtDash() == 0 {
		return errors.New("NAME is missing")
	}
	return checkDash(cmd, args, 1)
}

// checkDash accepts a number of arguments, optionally followed by -- and a command.
func checkDash(cmd *cobra.Command, args []string, before int) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0 && len(args) > before || dash > before:
		return fmt.Errorf("unexpected argument %q: put the command after --", args[before])
	case dash == len(args):
		return errors.New("the command is missing after --")
	default:
		return nil
	}
}

// commandHelp is the help text about the command, shared by lock, elect and group.
const commandHelp = "" +
	"The command inherits standard input, output and error, and its process group receives the\n" +
	"signals sent to athena. If the %[1]s is lost, the group gets SIGTERM, then SIGKILL after\n" +
	"--kill-after. The %[1]s is also lost if the node stops or does not respond in time. If the\n" +
	"command exits before other processes of its group, they get SIGTERM after a second, then\n" +
	"SIGKILL after --kill-after; the %[1]s is released when all have exited. On Linux, processes\n" +
	"of other groups (setsid, timeout) end too if a signal or a loss ends the command; otherwise\n" +
	"they are not waited for. If athena is killed, the command gets only SIGTERM, on Linux.\n\n" +
	"ATHENA_TOKEN in its environment is the fencing token, a number that grows with each\n" +
	"acquisition: ATHENA_TOKEN_VERSION x 10^12 + ATHENA_TOKEN_REVISION. Send it with each write:\n" +
	"storage that compares tokens rejects the writes of a command that outlives its %[1]s. %[2]s"

// namedText returns "NAME at ADDRESS" with control characters escaped. It is used for texts
// received from a node.
func namedText(name, address string) string {
	if name == "" || name == address {
		return cli.Cell(address)
	}
	return cli.Cell(name) + " at " + cli.Cell(address)
}

// changeLine is a line of output that reports a change.
type changeLine struct {
	Time time.Time `json:"time"`
	Type string    `json:"type"`
	// JobLeader is set if Type is leader. JobLeader.Leader is nil if there is no leader.
	*adminapi.JobLeader
	Token *adminapi.RecordToken `json:"token,omitempty"` // token of this process's leadership
	Error string                `json:"error,omitempty"`
}

func leaderLine(leader *adminapi.Holder) changeLine {
	return changeLine{Type: adminapi.EventLeader, JobLeader: &adminapi.JobLeader{Leader: leader}}
}

func (h *heldVerb) printLine(l changeLine) error {
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
		text = "none"
	}
	_, err := io.WriteString(h.out, fmt.Sprintf("%s  %-6s  %s\n",
		l.Time.Format("2006-01-02 15:04:05.000"), l.Type, text))
	return err
}
