// SPDX-License-Identifier: Apache-2.0

// Package command runs a program while a lock or a job is held, and stops the program if the lock
// or job is lost.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// pipeTimeout is how long to wait for the child processes of a command to close its output.
const pipeTimeout = time.Second

// ExitCode is the exit code of a command. This program exits with the same code.
type ExitCode int

// Error implements error.
func (c ExitCode) Error() string { return fmt.Sprintf("the command exited with %d", int(c)) }

// Interrupts receives SIGINT, SIGTERM and SIGHUP. The first signal cancels the context with the
// cause cli.ErrStopped, and every signal is forwarded to the running command.
type Interrupts struct {
	context.Context
	signals chan os.Signal
	done    chan struct{}

	mu   sync.Mutex
	last os.Signal
	to   func(os.Signal) // forwards to the command; nil if no command runs
}

// NewInterrupts receives signals until Stop is called.
func NewInterrupts() *Interrupts {
	ctx, cancel := context.WithCancelCause(context.Background())
	i := &Interrupts{Context: ctx, signals: make(chan os.Signal, 8), done: make(chan struct{})}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(i.signals, syscall.SIGHUP)
	}
	go func() {
		defer cancel(nil)
		for {
			select {
			case s := <-i.signals:
				cancel(cli.ErrStopped)
				i.mu.Lock()
				if i.last = s; i.to != nil {
					i.to(s)
				}
				i.mu.Unlock()
			case <-i.done:
				return
			}
		}
	}()
	return i
}

// passTo forwards later signals to a command. If signals have already arrived, it first forwards
// the last of them.
func (i *Interrupts) passTo(to func(os.Signal)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.to = to; to != nil && i.last != nil {
		to(i.last)
	}
}

// Stop restores the default behavior of the signals.
func (i *Interrupts) Stop() {
	signal.Stop(i.signals)
	close(i.done)
}

// Command is a program that runs while a lock or job is held.
type Command struct {
	path      string
	args      []string // including args[0]
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
	KillAfter time.Duration
	Signals   *Interrupts
}

// New looks up the program args[0]. It returns nil if args is empty.
func New(cmd *cobra.Command, args []string) (*Command, error) {
	if len(args) == 0 {
		return nil, nil
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, cli.Usage(err)
	}
	return &Command{
		path: path, args: args,
		stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(),
	}, nil
}

// Run runs the program until it exits, with variables added to the environment. If ctx ends, the
// program and its child processes get SIGTERM, and SIGKILL after KillAfter. If a signal canceled
// ctx, the program gets that signal instead of SIGTERM. The error is an ExitCode, or the reason why
// the program could not be started.
func (c *Command) Run(ctx context.Context, variables ...string) error {
	if ctx.Err() != nil {
		return nil
	}
	// On Linux, a child gets its orphan signal when the thread that started it exits.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Cmd{
		Path: c.path, Args: c.args, Env: append(os.Environ(), variables...),
		Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr, WaitDelay: pipeTimeout,
	}
	shared := prepare(&cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	c.Signals.passTo(func(s os.Signal) {
		// The terminal has already sent the other signals to the whole group.
		if !shared || s == syscall.SIGTERM {
			send(&cmd, s, shared)
		}
	})
	defer c.Signals.passTo(nil)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	lost := ctx.Done()
	var kill <-chan time.Time
	for {
		select {
		case err := <-ended:
			if cmd.ProcessState == nil {
				return err
			}
			return codeOf(cmd.ProcessState)
		case <-lost:
			lost = nil
			if errors.Is(context.Cause(ctx), cli.ErrStopped) {
				continue
			}
			send(&cmd, syscall.SIGTERM, shared)
			kill = time.After(c.KillAfter)
		case <-kill:
			send(&cmd, syscall.SIGKILL, shared)
		}
	}
}
