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

// pipeCheckInterval is the interval at which watchPipe checks whether the reader of the output is
// gone.
const pipeCheckInterval = 500 * time.Millisecond

// untilDemoEnds returns a context and a writer to use instead of the writer out. The context ends
// at a signal (cause cli.ErrStopped), or when out can no longer be written to. The signals do not
// end the process, which must remove its secret and stop its nodes. Later signals are ignored until
// stop is called. The first SIGQUIT writes the stacks to errOut; the second ends the process.
func untilDemoEnds(
	out, errOut io.Writer,
) (ctx context.Context, watched io.Writer, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	quits := make(chan os.Signal, 1)
	signal.Notify(quits, syscall.SIGQUIT)
	// Notify keeps SIGPIPE from ending the process, so that the write fails instead.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	o := &pipeWriter{out, cancel}
	go func() {
		select {
		case <-signals:
			cancel(cli.ErrStopped)
		case <-quits:
			_ = pprof.Lookup("goroutine").WriteTo(errOut, 2) // like the runtime
			cancel(errQuit)
		case <-ctx.Done():
		}
		signal.Reset(syscall.SIGQUIT)
	}()
	if f, ok := out.(*os.File); ok {
		go o.watchPipe(ctx, f)
	}
	return ctx, o, func() {
		signal.Stop(signals)
		signal.Stop(pipes)
		cancel(nil)
	}
}

// pipeWriter cancels the demo when its output can no longer be written to.
type pipeWriter struct {
	out    io.Writer
	cancel context.CancelCauseFunc
}

// Write implements io.Writer.
func (o *pipeWriter) Write(p []byte) (int, error) {
	n, err := o.out.Write(p)
	if err != nil {
		o.cancelDemo(err)
	}
	return n, err
}

func (o *pipeWriter) cancelDemo(err error) {
	o.cancel(fmt.Errorf("cannot write the output: %w", err))
}

// watchPipe cancels the demo when the reader of the output is gone, even if nothing is being
// printed. On systems that cannot detect this, the next Write cancels the demo.
func (o *pipeWriter) watchPipe(ctx context.Context, f *os.File) {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}} // poll always reports errors
	for ctx.Err() == nil {
		n, err := unix.Poll(fds, int(pipeCheckInterval.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR), err == nil && n == 0:
		case err == nil && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			o.cancelDemo(unix.EPIPE)
			return
		default:
			return
		}
	}
}
