// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// readerCheck is how often the demo looks whether somebody still reads what it
// prints: it may have nothing to say for long.
const readerCheck = 500 * time.Millisecond

// untilDemoEnds returns a context that ends at a signal, with the cause
// errStopped, or when out takes nothing more, and the writer to use in the place
// of out. Nothing of this ends the process: the demo has a secret to remove, and
// nodes to end. Signals that come while it does so are ignored until stop, but for
// SIGQUIT: the first one writes the stacks to errOut, later ones end all at once.
func untilDemoEnds(
	out, errOut io.Writer,
) (ctx context.Context, watched io.Writer, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	quits := make(chan os.Signal, 1)
	signal.Notify(quits, syscall.SIGQUIT)
	// Nobody receives these: it is enough that they end nothing, and that the
	// write fails.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	o := &outlet{out, cancel}
	go func() {
		select {
		case <-signals:
			cancel(cli.ErrStopped)
		case <-quits:
			_ = pprof.Lookup("goroutine").WriteTo(errOut, 2) // as the runtime would
			cancel(errQuit)
		case <-ctx.Done():
		}
		signal.Reset(syscall.SIGQUIT)
	}()
	if f, ok := out.(*os.File); ok {
		go o.watchReader(ctx, f)
	}
	return ctx, o, func() {
		signal.Stop(signals)
		signal.Stop(pipes)
		cancel(nil)
	}
}

// outlet is where the demo prints.
type outlet struct {
	out    io.Writer
	cancel context.CancelCauseFunc
}

// Write ends the demo where it cannot be heard.
func (o *outlet) Write(p []byte) (int, error) {
	n, err := o.out.Write(p)
	if err != nil {
		o.noteGone(err)
	}
	return n, err
}

func (o *outlet) noteGone(err error) {
	o.cancel(fmt.Errorf("what the demo prints cannot be written any more: %w", err))
}

// watchReader finds out that the other end of the output was closed while nothing is
// printed. Where the system cannot tell, the next line does.
func (o *outlet) watchReader(ctx context.Context, f *os.File) {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}} // no events: errors are always told
	for ctx.Err() == nil {
		n, err := unix.Poll(fds, int(readerCheck.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR), err == nil && n == 0:
		case err == nil && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			o.noteGone(unix.EPIPE)
			return
		default:
			return
		}
	}
}
