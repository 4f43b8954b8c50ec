// SPDX-License-Identifier: Apache-2.0

// athena lock: hold a lock of the cluster while a command runs.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
)

// scriptJob is the job of locks whose name does not include a job.
const scriptJob = "lock"

// maxExitCode is the greatest exit code of a process.
const maxExitCode = 255

// explainTimeout limits the time spent on explaining why a lock was not acquired.
const explainTimeout = time.Second

var errTimedOut = errors.New("timed out")

func newLock() *cobra.Command {
	var h heldVerb
	var timeout time.Duration
	var permits, conflict int
	cmd := &cobra.Command{
		Use:   "lock NAME [-- COMMAND ARGUMENT...]",
		Short: "hold a lock of the cluster while a command runs",
		Long: "lock waits for the lock NAME, acquires it through a node and runs COMMAND. Without\n" +
			"COMMAND it prints the token and holds the lock until it is interrupted. While it waits, it\n" +
			"prints the holder to standard error, unless -o json is set.\n\n" +
			"Callers are served in the order of their requests. With --permits N, N of them hold the\n" +
			"lock together; all callers must give the same N. Each of several permits has its own\n" +
			"tokens, which cannot be compared with those of another.\n\n" +
			"NAME is short for lock/NAME. Programs that use package lock share the locks by their full\n" +
			"name JOB/NAME.\n\n" +
			fmt.Sprintf(commandHelp, "lock", "ATHENA_LOCK is set to the full name.\n\n"+
				"lock exits with the exit code of the command, or with another of those listed below.") +
			needsWrite,
		Example: "  athena lock backup -- /usr/local/bin/backup.sh\n" +
			"  athena lock billing/schema -- sh -c 'migrate --token \"$ATHENA_TOKEN\"'\n" +
			"  athena lock export --permits 3 -- /usr/local/bin/export.sh",
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return cli.Usage(fmt.Errorf("--timeout %v: must not be negative", timeout))
			}
			if cmd.Flags().Changed("permits") && permits < 1 {
				return cli.Usage(fmt.Errorf("--permits %d: must be at least 1", permits))
			}
			if conflict < 0 || conflict > maxExitCode {
				return cli.Usage(fmt.Errorf("--conflict-exit-code %d: must be 0 to %d", conflict,
					maxExitCode))
			}
			job, name, other := strings.Cut(args[0], "/")
			if !other {
				job, name = scriptJob, args[0]
			}
			if _, err := lock.Key(job + "/" + name); err != nil {
				return cli.Usage(fmt.Errorf("NAME %q: %w", args[0], err))
			}
			end, err := h.prepareCommand(cmd, args)
			if err != nil {
				return err
			}
			defer end()
			r := adminapi.LockRequest{Latch: name, Permits: permits}
			return h.holdLatch(job, r, timeout, conflict, cmd.ErrOrStderr())
		},
	}
	h.defineFlags(cmd)
	h.defineHolder(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "stop waiting after this time; 0 means never")
	cmd.Flags().IntVarP(&conflict, "conflict-exit-code", "E", cli.ExitConflict,
		"exit code if the lock was not acquired within --timeout")
	cmd.Flags().IntVarP(&permits, "permits", "n", 0,
		"let this `NUMBER` of callers hold the lock together")
	return cmd
}

// holdLatch acquires a latch, and holds it until the command exits or a signal arrives. conflict is
// the exit code if it cannot acquire the latch within the timeout.
func (h *heldVerb) holdLatch(
	job string, r adminapi.LockRequest, timeout time.Duration, conflict int, errOut io.Writer,
) error {
	ctx, cancel := context.WithCancelCause(h.signals)
	defer cancel(nil)
	late := func() bool { return false }
	if timeout > 0 {
		timer := time.AfterFunc(timeout, func() { cancel(errTimedOut) })
		late = func() bool { return !timer.Stop() }
	}
	held := false
	whole := job + "/" + r.Latch
	err := h.client.Lock(ctx, job, r, func(now adminapi.Waiting) {
		switch {
		case h.Output == "json":
		case now.NoLeader != "":
			fmt.Fprintf(errOut, "athena: waiting: no leader with authority: %s\n", now.NoLeader)
		case now.Holder != nil:
			fmt.Fprintf(errOut, "athena: waiting: %s\n", describeHolder(*now.Holder))
		}
	}, func(ctx context.Context, t adminapi.RecordToken) error {
		if late() {
			return errTimedOut
		}
		held = true
		if h.command != nil {
			return h.runCommand(ctx, t, settings.VariableLock+"="+whole)
		}
		if err := h.printGrant(grantLine{job, r.Latch, t}); err != nil {
			return cli.CodeError{Code: cli.ExitFailed, Err: err}
		}
		<-ctx.Done()
		return nil
	})
	switch {
	case err == nil, endsCommand(err):
		return err
	case errors.Is(err, errTimedOut):
		return cli.CodeError{Code: conflict, Err: fmt.Errorf(
			"%s was not acquired within %v: %s", whole, timeout, h.explainWait(job, r))}
	case errors.Is(err, cli.ErrStopped):
		return cli.CodeError{Code: h.signals.ExitCode(), Err: fmt.Errorf(
			"%s was not acquired: %w: %s", whole, err, h.explainWait(job, r))}
	case held:
		return cli.CodeError{Code: cli.ExitLost, Err: fmt.Errorf("%s was lost: %w", whole, err)}
	default:
		return cli.CodeError{Code: cli.ExitNode, Err: h.Explain(err)}
	}
}

func describeHolder(h adminapi.Holder) string {
	text := fmt.Sprintf("held by %s, token %s", namedText(h.Name, h.Address), h.Token.String())
	return text + describeCaller(h)
}

// explainWait returns why a latch was not acquired.
func (h *heldVerb) explainWait(job string, r adminapi.LockRequest) string {
	ctx, cancel := context.WithTimeout(context.Background(), explainTimeout)
	defer cancel()
	if s, err := h.client.Status(ctx); err == nil && s.NoLeader != "" {
		return "no leader with authority: " + s.NoLeader
	}
	jobs, err := h.client.Jobs(ctx)
	if err != nil {
		return h.Explain(err).Error()
	}
	name := r.Latch
	if r.Permits > 1 {
		name += "/0" // the first permit
	}
	for _, j := range jobs {
		for _, l := range j.Latches {
			if j.Name == job && l.Name == name {
				return describeHolder(l.Holder)
			}
		}
	}
	return "it is free now"
}

// grantLine is the output of athena lock without a command.
type grantLine struct {
	Job   string               `json:"job"`
	Latch string               `json:"latch"`
	Token adminapi.RecordToken `json:"token"`
}

func (h *heldVerb) printGrant(g grantLine) error {
	n, err := member.Token(g.Token).Int64()
	if err != nil {
		return err
	}
	if h.Output == "json" {
		return json.NewEncoder(h.out).Encode(struct {
			grantLine
			Number int64 `json:"number"`
		}{g, n})
	}
	_, err = fmt.Fprintln(h.out, n)
	return err
}
