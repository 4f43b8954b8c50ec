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

// sameSignal is the time within which two signals count as one, since timeout(1) and terminals
// signal both the process and its group.
const sameSignal = 100 * time.Millisecond

// untilSignal returns a context that the first SIGINT or SIGTERM cancels with the cause
// cli.ErrStopped. A second signal ends the process.
func untilSignal(log *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first.IsZero():
					log.Info("stopping on a signal; a second signal forces an immediate exit",
						slog.String("signal", s.String()))
					first = time.Now()
					cancel(cli.ErrStopped)
				case time.Since(first) > sameSignal:
					log.Warn("exiting immediately on a second signal", slog.String("signal", s.String()))
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
