// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/latch"
	"github.com/athena-go/athena/member"
)

const (
	// scriptJob is the job of latches that are named without one.
	scriptJob = "lock"
	// defaultKillAfter is how long a command may take to end.
	defaultKillAfter = 10 * time.Second
	// askPatience bounds the question who has what could not be had in time.
	askPatience = time.Second
)

// The variables of a command that runs while something is held.
const (
	variableToken    = "ATHENA_TOKEN"
	variableVersion  = "ATHENA_TOKEN_VERSION"
	variableRevision = "ATHENA_TOKEN_REVISION"
	variableLock     = "ATHENA_LOCK"
	variableJob      = "ATHENA_JOB"
)

var errLate = errors.New("the time is over")

// holding is a verb that holds something, with or without a command.
type holding struct {
	question
	killAfter time.Duration

	client  *adminclient.Client
	signals *interrupts
	command *command // nil for none

	printing sync.Mutex
	out      io.Writer
}

func (h *holding) define(cmd *cobra.Command) {
	h.question.define(cmd.Flags())
	cmd.Flags().DurationVar(&h.killAfter, "kill-after", defaultKillAfter,
		"SIGKILL for a command that goes on for so long after SIGTERM")
}

// begin reads the command line; end undoes it.
func (h *holding) begin(cmd *cobra.Command, args []string) (end func(), err error) {
	if h.killAfter <= 0 {
		return nil, usageError{fmt.Errorf("--kill-after %v: must be above 0", h.killAfter)}
	}
	if h.command, err = newCommand(cmd, args[1:]); err != nil {
		return nil, err
	}
	if h.client, err = h.question.client(cmd); err != nil {
		return nil, err
	}
	h.signals, h.out = newInterrupts(), cmd.OutOrStdout()
	if h.command != nil {
		h.command.signals, h.command.killAfter = h.signals, h.killAfter
	}
	return h.signals.stop, nil
}

// run runs the command while something is held by a token.
func (h *holding) run(ctx context.Context, t adminapi.RecordToken, variable string) error {
	n, err := member.Token(t).Int64()
	if err != nil {
		return err
	}
	return h.command.run(ctx, variableToken+"="+strconv.FormatInt(n, 10),
		variableVersion+"="+strconv.FormatUint(t.Version, 10),
		variableRevision+"="+strconv.FormatUint(t.Revision, 10), variable)
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
	"The command has the streams of athena, and gets its signals. When the %[1]s is\n" +
	"lost, which is also so where the node is gone, or says nothing for as long as it trusted that\n" +
	"it has it, the command and what it has started get SIGTERM, and SIGKILL after --kill-after.\n" +
	"On Linux the command gets SIGTERM also where athena is killed. Only storage that compares\n" +
	"tokens keeps out what a command does meanwhile.\n\n" +
	"In its environment ATHENA_TOKEN is the fencing token as one number that grows each time:\n" +
	"a million millions times ATHENA_TOKEN_VERSION, and ATHENA_TOKEN_REVISION. %[2]s"

func newLock() *cobra.Command {
	var h holding
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "lock NAME [-- COMMAND ARGUMENT...]",
		Short: "run a command while nobody else in the cluster holds the same lock",
		Long: "lock waits until nobody holds a lock, holds it through the node that it asks, and runs\n" +
			"a command. Without one it prints the token and holds the lock until it is interrupted.\n" +
			"While it waits, standard error says who holds the lock, but not with -o json.\n" +
			"NAME is a latch of the job lock; JOB/LATCH is that of another job, which programs get by\n" +
			"Do of package latch.\n\n" +
			fmt.Sprintf(commandHelp, "lock", "ATHENA_LOCK is JOB/LATCH.\n"+
				"athena ends with the exit code of the command, 128 and its number for a signal.") +
			needsWrite,
		Example: "  athena lock backup -- /usr/local/bin/backup.sh\n" +
			"  athena lock billing/schema -- sh -c 'migrate --token \"$ATHENA_TOKEN\"'",
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return usageError{fmt.Errorf("--timeout %v: must not be negative", timeout)}
			}
			job, name, other := strings.Cut(args[0], "/")
			if !other {
				job, name = scriptJob, args[0]
			}
			if _, err := latch.Key(job, name); err != nil {
				return usageError{fmt.Errorf("NAME %q: %w", args[0], err)}
			}
			end, err := h.begin(cmd, args)
			if err != nil {
				return err
			}
			defer end()
			return h.lock(job, name, timeout, cmd.ErrOrStderr())
		},
	}
	h.define(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up waiting after this time, 0 for never")
	return cmd
}

// lock holds a latch.
func (h *holding) lock(job, name string, timeout time.Duration, errOut io.Writer) error {
	ctx, cancel := context.WithCancelCause(h.signals)
	defer cancel(nil)
	late := func() bool { return false }
	if timeout > 0 {
		timer := time.AfterFunc(timeout, func() { cancel(errLate) })
		late = func() bool { return !timer.Stop() }
	}
	held := false
	whole := job + "/" + name
	err := h.client.Lock(ctx, job, name, func(by *adminapi.Holder) {
		if by != nil && h.output != "json" {
			fmt.Fprintf(errOut, "athena: waiting: %s\n", holds(*by))
		}
	}, func(ctx context.Context, t adminapi.RecordToken) error {
		if late() {
			return errLate
		}
		held = true
		if h.command != nil {
			return h.run(ctx, t, variableLock+"="+whole)
		}
		if err := h.printGrant(grantLine{job, name, t}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	var ended commandError
	switch {
	case err == nil, errors.As(err, &ended):
		return err
	case errors.Is(err, errLate):
		return fmt.Errorf("%s was not free within %v: %s", whole, timeout, h.why(job, name))
	case errors.Is(err, errStopped):
		return fmt.Errorf("%s was not free yet: %w: %s", whole, err, h.why(job, name))
	case held:
		return fmt.Errorf("%s was lost: %w", whole, err)
	default:
		return h.explained(err)
	}
}

func holds(h adminapi.Holder) string {
	return fmt.Sprintf("%s holds it, token %s", namedText(h.Name, h.Address), h.Token.String())
}

// namedText is named for texts that a node has sent.
func namedText(name, address string) string {
	if name == "" || name == address {
		return cell(address)
	}
	return cell(name) + " at " + cell(address)
}

// why says what keeps a latch from being had.
func (h *holding) why(job, name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	if s, err := h.client.Status(ctx); err == nil && s.NoLeader != "" {
		return "no leader with authority: " + s.NoLeader
	}
	jobs, err := h.client.Jobs(ctx)
	if err != nil {
		return h.explained(err).Error()
	}
	for _, j := range jobs {
		for _, l := range j.Latches {
			if j.Name == job && l.Name == name {
				return holds(l.Holder)
			}
		}
	}
	return "nobody holds it now"
}

// grantLine is what athena lock prints without a command.
type grantLine struct {
	Job   string               `json:"job"`
	Latch string               `json:"latch"`
	Token adminapi.RecordToken `json:"token"`
}

func (h *holding) printGrant(g grantLine) error {
	n, err := member.Token(g.Token).Int64()
	if err != nil {
		return err
	}
	if h.output == "json" {
		return json.NewEncoder(h.out).Encode(struct {
			grantLine
			Number int64 `json:"number"`
		}{g, n})
	}
	_, err = fmt.Fprintln(h.out, n)
	return err
}
