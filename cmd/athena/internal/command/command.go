// SPDX-License-Identifier: Apache-2.0

// Package command runs a program while a lock or a job is held, and ends it when that is
// lost.
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

// pipePatience is how long what a command has left behind may keep its output open.
const pipePatience = time.Second

// ExitCode is the exit code of a command, which becomes that of this program.
type ExitCode int

// Error implements error.
func (c ExitCode) Error() string { return fmt.Sprintf("the command ended with %d", int(c)) }

// Interrupts are the signals that would end this process. The first one ends a context,
// with the cause errStopped; all go to the command that runs.
type Interrupts struct {
	context.Context
	signals chan os.Signal
	done    chan struct{}

	mu   sync.Mutex
	last os.Signal
	to   func(os.Signal) // the command that runs; nil for none
}

// NewInterrupts begins to receive the signals, until Stop is called.
func NewInterrupts() *Interrupts {
	ctx, cancel := context.WithCancelCause(context.Background())
	i := &Interrupts{Context: ctx, signals: make(chan os.Signal, 8), done: make(chan struct{})}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
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

// pass lets a command get the signals, nil for none. One that came just before is not
// lost on it.
func (i *Interrupts) pass(to func(os.Signal)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.to = to; to != nil && i.last != nil {
		to(i.last)
	}
}

// Stop gives the signals their usual effect back.
func (i *Interrupts) Stop() {
	signal.Stop(i.signals)
	close(i.done)
}

// Command is a program that runs while something is held.
type Command struct {
	path      string
	args      []string // with its name
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
	KillAfter time.Duration
	Signals   *Interrupts
}

// New finds a program; nil where args name none.
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

// Run runs the program to its end, with variables besides those of this process. When ctx
// ends, the program and what it has started get SIGTERM, and SIGKILL where it goes on for
// too long; where a signal has ended ctx, that was passed on. The error is an commandError,
// or why the program could not be started.
func (c *Command) Run(ctx context.Context, variables ...string) error {
	if ctx.Err() != nil {
		return nil
	}
	// On Linux a child is orphaned by the end of the thread that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Cmd{
		Path: c.path, Args: c.args, Env: append(os.Environ(), variables...),
		Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr, WaitDelay: pipePatience,
	}
	shared := prepare(&cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	c.Signals.pass(func(s os.Signal) {
		// A terminal has told all whom it talks to.
		if !shared || s == syscall.SIGTERM {
			send(&cmd, s, shared)
		}
	})
	defer c.Signals.pass(nil)
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
