// SPDX-License-Identifier: Apache-2.0

// Package command runs a program while a lock or a job is held, and stops the program if the lock
// or job is lost.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// Times of a command whose program has exited, while processes of its group still run.
const (
	// endTimeout is the time that they have to exit by themselves before they get SIGTERM.
	endTimeout = time.Second
	// pollInterval is the time between checks whether they have exited.
	pollInterval = 20 * time.Millisecond
)

// ExitCode is the exit code of a command. This program exits with the same code.
type ExitCode int

// Error implements error.
func (c ExitCode) Error() string { return fmt.Sprintf("the command exited with %d", int(c)) }

// Interrupts receives SIGINT, SIGTERM, SIGQUIT and SIGHUP. The first signal cancels the context
// with the cause cli.ErrStopped. While a command runs, every signal is forwarded to the command
// instead, and the context is canceled when the command has ended: until then, a canceled context
// means that the command must end because its lock or job is lost.
type Interrupts struct {
	context.Context
	cancel  context.CancelCauseFunc
	signals chan os.Signal
	done    chan struct{}

	mu   sync.Mutex
	last os.Signal
	to   func(syscall.Signal) // forwards to the command; nil if no command runs
}

// NewInterrupts receives signals until Stop is called.
func NewInterrupts() *Interrupts {
	i := &Interrupts{signals: make(chan os.Signal, 8), done: make(chan struct{})}
	i.Context, i.cancel = context.WithCancelCause(context.Background())
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(i.signals, syscall.SIGHUP)
	}
	go func() {
		defer i.cancel(nil)
		for {
			select {
			case s := <-i.signals:
				i.mu.Lock()
				i.last = s
				i.forwardLast()
				i.mu.Unlock()
			case <-i.done:
				return
			}
		}
	}()
	return i
}

// forwardLast forwards the last signal to the command, or cancels the context if no command runs.
// i.mu must be held.
func (i *Interrupts) forwardLast() {
	if s, ok := i.last.(syscall.Signal); ok && i.to != nil {
		i.to(s)
	} else if ok {
		i.cancel(cli.ErrStopped)
	}
}

// forwardTo starts a command by the function start, and forwards signals to it from then on. It
// does not start the command if a signal has arrived before.
func (i *Interrupts) forwardTo(start func() (to func(syscall.Signal), err error)) (err error) {
	i.mu.Lock() // a signal waits: the command may answer it as soon as it runs
	defer i.mu.Unlock()
	if i.last != nil {
		return nil
	}
	i.to, err = start()
	return err
}

// endForwarding cancels the context if a signal has arrived, or when the next one arrives.
func (i *Interrupts) endForwarding() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.to = nil
	i.forwardLast()
}

// ExitCode returns the exit code of a process that the last signal has interrupted.
func (i *Interrupts) ExitCode() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	s, _ := i.last.(syscall.Signal)
	return cli.ExitSignal + int(s)
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
	OnExit    func() // if not nil, called when the program has exited, before others of its group
}

// New looks up the program args[0]. It returns nil if args is empty. The error has the exit code
// cli.ExitNotFound or cli.ExitCannot.
func New(cmd *cobra.Command, args []string) (*Command, error) {
	if len(args) == 0 {
		return nil, nil
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, startError(err)
	}
	return &Command{
		path: path, args: args,
		stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(),
	}, nil
}

// startError returns err with the exit code that env(1) has for it.
func startError(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return cli.CodeError{Code: cli.ExitNotFound, Err: err}
	}
	return cli.CodeError{Code: cli.ExitCannot, Err: err}
}

// Run runs the program until it and all processes of its group have exited, with variables added to
// the environment. If ctx ends, the group gets SIGTERM, and SIGKILL after KillAfter. If the program
// exits before the others, they get SIGTERM after endTimeout, and SIGKILL after KillAfter. The same
// holds for groups that it has left behind if a signal or ctx ends it. The error is an ExitCode, or
// the reason why the program could not be started, as for New.
func (c *Command) Run(ctx context.Context, variables ...string) error {
	if ctx.Err() != nil {
		return nil
	}
	// On Linux, a child gets its orphan signal when the thread that started it exits.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var g *processGroup
	var asked, told atomic.Bool
	err := c.Signals.forwardTo(func() (to func(syscall.Signal), err error) {
		g, err = startGroup(&exec.Cmd{
			Path: c.path, Args: c.args, Env: append(os.Environ(), variables...),
			Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr,
		})
		if err != nil {
			return nil, startError(err)
		}
		return func(s syscall.Signal) {
			told.Store(true)
			asked.CompareAndSwap(false, s == syscall.SIGTERM)
			g.sendSignal(s)
		}, nil
	})
	if g == nil { // it could not be started, or a signal has arrived
		return err
	}
	defer g.close()
	defer c.Signals.endForwarding()
	c.waitGroup(ctx, g, &asked, &told)
	if g.code == cli.ExitDone {
		return nil
	}
	return ExitCode(g.code)
}

// waitGroup returns when every process of the group has exited, and those of other groups if told
// is true. asked is true if the group has got SIGTERM: many programs take a second one as an order
// not to clean up.
func (c *Command) waitGroup(ctx context.Context, g *processGroup, asked, told *atomic.Bool) {
	lost := ctx.Done()
	var poll, late, kill <-chan time.Time
	onExit := sync.OnceFunc(func() {
		if c.OnExit != nil {
			c.OnExit()
		}
	})
	for {
		select {
		case <-g.changes:
			g.reapChildren()
		case <-poll:
		case <-lost:
			lost, late = nil, time.After(0)
			told.Store(true)
		case <-late:
			if !asked.Swap(true) {
				g.sendSignal(syscall.SIGTERM)
			}
			if kill == nil {
				kill = time.After(c.KillAfter)
			}
		case <-kill:
			g.sendSignal(syscall.SIGKILL)
			g.signalOthers(syscall.SIGKILL)
			kill = time.After(c.KillAfter)
		}
		if g.exited {
			onExit()
		}
		switch {
		case !g.exited:
		case g.isEmpty() && !(told.Load() && g.signalOthers(syscall.SIGTERM)):
			return
		default:
			if poll == nil && late == nil && kill == nil {
				late = time.After(endTimeout)
			}
			poll = time.After(pollInterval)
		}
	}
}
