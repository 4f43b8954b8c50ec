// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

const (
	// sameSignal is the time within which two signals count as one.
	sameSignal = 100 * time.Millisecond
)

// untilSignal returns a context that ends, with the cause errStopped, at the
// first SIGINT, SIGTERM or SIGHUP. The second one ends the process, unless it comes
// so soon that both are one: timeout(1) and terminals signal whole groups as well.
func untilSignal(log *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first.IsZero():
					log.Info("told to stop; a second signal ends at once",
						slog.String("signal", s.String()))
					first = time.Now()
					cancel(cli.ErrStopped)
				case time.Since(first) > sameSignal:
					log.Warn("ending at once", slog.String("signal", s.String()))
					os.Exit(cli.ExitFailed)
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
