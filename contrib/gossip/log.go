// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// maxLineBytes bounds a line of the log: others choose their names.
const maxLineBytes = 1024

// lines writes what memberlist logs to a slog.Logger.
type lines struct{ *slog.Logger }

func logger(to *slog.Logger) *log.Logger { return log.New(lines{to}, "", 0) }

// levels are those that memberlist begins its lines with.
var levels = map[string]slog.Level{
	"[DEBUG]": slog.LevelDebug, "[INFO]": slog.LevelInfo,
	"[WARN]": slog.LevelWarn, "[ERR]": slog.LevelError, "[ERROR]": slog.LevelError,
}

// Write implements io.Writer: a line at a time.
func (w lines) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p[:min(len(p), maxLineBytes)]))
	level := slog.LevelInfo
	if word, rest, _ := strings.Cut(text, " "); strings.HasPrefix(word, "[") {
		if l, ok := levels[word]; ok {
			level, text = l, rest
		}
	}
	w.Log(context.Background(), level, strings.ToValidUTF8(text, "?"))
	return len(p), nil
}
