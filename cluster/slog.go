// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"
)

// slogWriter turns the lines of a zerolog.Logger into records for slog.
type slogWriter struct{ handler slog.Handler }

// Write takes a line that has no level.
func (w slogWriter) Write(line []byte) (int, error) {
	return w.WriteLevel(zerolog.InfoLevel, line)
}

// WriteLevel takes one line, a JSON object.
func (w slogWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	ctx := context.Background()
	if !w.handler.Enabled(ctx, slogLevel(level)) {
		return len(line), nil
	}
	fields := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber() // versions are numbers of 64 bits, more than a float holds
	if err := d.Decode(&fields); err != nil {
		return 0, err
	}
	text, _ := fields[zerolog.MessageFieldName].(string)
	delete(fields, zerolog.MessageFieldName)
	delete(fields, zerolog.LevelFieldName)
	record := slog.NewRecord(time.Now(), slogLevel(level), text, 0)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		record.AddAttrs(slog.Any(name, fields[name]))
	}
	return len(line), w.handler.Handle(ctx, record)
}

func slogLevel(l zerolog.Level) slog.Level {
	switch {
	case l <= zerolog.DebugLevel:
		return slog.LevelDebug
	case l == zerolog.WarnLevel:
		return slog.LevelWarn
	case l == zerolog.InfoLevel, l == zerolog.NoLevel:
		return slog.LevelInfo
	default:
		return slog.LevelError
	}
}
