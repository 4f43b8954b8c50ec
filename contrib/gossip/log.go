// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// maxLineBytes is the maximum length of a log line. Lines contain names chosen by other members.
const maxLineBytes = 1024

// lines writes the log of memberlist to a slog.Logger.
type lines struct{ *slog.Logger }

func newLogger(to *slog.Logger) *log.Logger { return log.New(lines{to}, "", 0) }

// levels are the prefixes of the lines of memberlist.
var levels = map[string]slog.Level{
	"[DEBUG]": slog.LevelDebug, "[INFO]": slog.LevelInfo,
	"[WARN]": slog.LevelWarn, "[ERR]": slog.LevelError, "[ERROR]": slog.LevelError,
}

// Write implements io.Writer. It gets one line per call.
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
