// SPDX-License-Identifier: Apache-2.0

package zslog

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestBytesAreThoseOfZerolog checks that a record becomes the line that zerolog itself would write,
// with the same keys in the same order.
func TestBytesAreThoseOfZerolog(t *testing.T) {
	at := time.Unix(12, 34).UTC()
	zerolog.TimestampFunc = func() time.Time { return at }
	defer func() { zerolog.TimestampFunc = time.Now }()
	var got, want bytes.Buffer
	logger := func(w *bytes.Buffer) zerolog.Logger {
		return zerolog.New(w).With().Timestamp().Logger().Level(zerolog.InfoLevel)
	}
	direct := logger(&want).With().Str("node", "n1").Logger()
	log := slog.New(NewHandler(logger(&got))).With(slog.String("node", "n1"))

	log.Info("leader changed", slog.Uint64("version", 1<<63), slog.Float64("took_ms", 12.5),
		slog.Any("votes", []string{"a", "b"}),
		slog.Group("steps_ms", slog.Float64("lost", 0), slog.Float64("quorate", 1e-7)),
		slog.Attr{})
	direct.Info().Uint64("version", 1<<63).Float64("took_ms", 12.5).Strs("votes", []string{"a", "b"}).
		Dict("steps_ms", zerolog.Dict().Float64("lost", 0).Float64("quorate", 1e-7)).
		Msg("leader changed")
	log.Warn("handler failed", slog.String("stack", "a\n\t\"b\""), slog.Bool("sender_told", true),
		slog.Any("error", errors.New("boom")), slog.Time("until", at), slog.Int("size", 3),
		slog.Any("none", nil))
	direct.Warn().Bytes("stack", []byte("a\n\t\"b\"")).Bool("sender_told", true).
		Err(errors.New("boom")).Time("until", at).Int("size", 3).Interface("none", nil).
		Msg("handler failed")
	log.Debug("below the level")
	log.Error("broken")
	direct.Error().Msg("broken")

	if got.String() != want.String() {
		t.Errorf("got\n%swant\n%s", &got, &want)
	}
}

// TestGroups checks that attributes are in the groups that were open when they were added.
func TestGroups(t *testing.T) {
	var got bytes.Buffer
	log := slog.New(NewHandler(zerolog.New(&got)))
	log.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").WithGroup("").
		Info("x", "c", 3*time.Second, slog.Group("", "d", 4), slog.Group("empty"))
	want := `{"level":"info","a":1,"g":{"b":2,"h":{"c":"3s","d":4}},"message":"x"}` + "\n"
	if got.String() != want {
		t.Errorf("got %swant %s", &got, want)
	}
}

// TestLevels checks that a level between two zerolog levels becomes the lower level.
func TestLevels(t *testing.T) {
	for level, want := range map[slog.Level]zerolog.Level{
		slog.LevelDebug - 1: zerolog.TraceLevel, slog.LevelDebug: zerolog.DebugLevel,
		slog.LevelInfo: zerolog.InfoLevel, slog.LevelInfo + 1: zerolog.InfoLevel,
		slog.LevelWarn: zerolog.WarnLevel, slog.LevelError + 4: zerolog.ErrorLevel,
	} {
		if got := levelOf(level); got != want {
			t.Errorf("%v: got %v, want %v", level, got, want)
		}
		h := NewHandler(zerolog.New(&bytes.Buffer{}).Level(zerolog.WarnLevel))
		if got := h.Enabled(t.Context(), level); got != (want >= zerolog.WarnLevel) {
			t.Errorf("%v at warn: got enabled %t", level, got)
		}
	}
}

// TestAtLevel checks that a change of the level applies to handlers with attributes and groups too.
func TestAtLevel(t *testing.T) {
	var got bytes.Buffer
	var level slog.LevelVar
	plain := slog.New(NewHandler(zerolog.New(&got)).AtLevel(&level))
	logs := []*slog.Logger{plain, plain.With("a", 1), plain.WithGroup("g")}
	for _, lowest := range []slog.Level{slog.LevelWarn, slog.LevelInfo, slog.LevelError} {
		level.Set(lowest)
		for i, log := range logs {
			log.Info("x")
			if written := got.Len() > 0; written != (lowest <= slog.LevelInfo) {
				t.Errorf("logger %d at %v: got INFO written %t", i, lowest, written)
			}
			got.Reset()
		}
	}
}

// BenchmarkLine compares zerolog with slog, for a line that is written and for one below the level.
func BenchmarkLine(b *testing.B) {
	for name, level := range map[string]zerolog.Level{
		"enabled": zerolog.DebugLevel, "disabled": zerolog.WarnLevel,
	} {
		direct := zerolog.New(discard{}).With().Str("node", "n1").Logger().Level(level)
		log := slog.New(NewHandler(zerolog.New(discard{}).Level(level))).With("node", "n1")
		b.Run(name+"/zerolog", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				direct.Debug().Uint64("version", 5).Str("peer", "127.0.0.1:2").Str("stage", "formal").
					Msg("counted a vote")
			}
		})
		b.Run(name+"/slog", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				log.LogAttrs(b.Context(), slog.LevelDebug, "counted a vote", slog.Uint64("version", 5),
					slog.String("peer", "127.0.0.1:2"), slog.String("stage", "formal"))
			}
		})
	}
}

// discard replaces io.Discard, because zerolog skips all work if it writes to io.Discard.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
