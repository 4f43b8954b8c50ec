// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

// AnnounceEnd is cluster.AnnounceEnd with the log and the transport of Run.
func AnnounceEnd(s *settings.Settings, c cluster.Config, log io.Writer) error {
	GuardSecrets()
	if err := os.Setenv(quietBuffers, "true"); err != nil {
		return err
	}
	level := new(slog.LevelVar)
	setLevel(level, s.LogLevel)
	opts := append(transportOf(s), cluster.WithLogger(newLogger(log, s.LogFormat, level)))
	return cluster.AnnounceEnd(context.Background(), c, opts...)
}
