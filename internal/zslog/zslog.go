// SPDX-License-Identifier: Apache-2.0

// Package zslog provides a slog.Handler that writes to a zerolog.Logger.
package zslog

import (
	"context"
	"log/slog"

	"github.com/rs/zerolog"
)

// Handler writes each record as one line of a zerolog.Logger: first the attributes of the
// handler, then those of the record. The time of a line comes from the logger
// (zerolog.Context.Timestamp), not from the record.
type Handler struct {
	log   zerolog.Logger
	level slog.Leveler // the lowest level besides that of log; nil for none
	attrs []slog.Attr
	// group is the name of the group that contains attrs and the attributes of the record. The group
	// is nested in the group of outer. It is empty unless WithGroup was called.
	group string
	outer *Handler
}

// NewHandler returns a Handler that writes to l. The level of l decides which records are written.
func NewHandler(l zerolog.Logger) *Handler { return &Handler{log: l} }

// AtLevel returns a Handler that writes no records below a level, which may change.
func (h *Handler) AtLevel(level slog.Leveler) *Handler {
	at := *h
	at.level = level
	return &at
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool {
	if h.level != nil && level < h.level.Level() {
		return false
	}
	l := levelOf(level)
	return l >= h.log.GetLevel() && l >= zerolog.GlobalLevel()
}

// Handle implements slog.Handler.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	line := h.log.WithLevel(levelOf(r.Level))
	if line == nil {
		return nil // below the level
	}
	if h.outer == nil {
		appendAttrs(line, h.attrs)
		r.Attrs(func(a slog.Attr) bool {
			appendAttr(line, a)
			return true
		})
	} else {
		h.appendGroups(line, r)
	}
	line.Msg(r.Message)
	return nil
}

// appendGroups appends the attributes of a handler with groups, outermost first.
func (h *Handler) appendGroups(line *zerolog.Event, r slog.Record) {
	var inner []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		inner = append(inner, a)
		return true
	})
	for ; h.outer != nil; h = h.outer {
		all := append(append([]slog.Attr(nil), h.attrs...), inner...)
		inner = []slog.Attr{slog.GroupAttrs(h.group, all...)}
	}
	appendAttrs(line, h.attrs)
	appendAttrs(line, inner)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = append(append([]slog.Attr(nil), h.attrs...), attrs...)
	return &with
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &Handler{log: h.log, level: h.level, group: name, outer: h}
}

func appendAttrs(line *zerolog.Event, attrs []slog.Attr) {
	for _, a := range attrs {
		appendAttr(line, a)
	}
}

func appendAttr(line *zerolog.Event, a slog.Attr) {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		appendGroup(line, a.Key, v.Group())
	case slog.KindString:
		line.Str(a.Key, v.String())
	case slog.KindInt64:
		line.Int64(a.Key, v.Int64())
	case slog.KindUint64:
		line.Uint64(a.Key, v.Uint64())
	case slog.KindFloat64:
		line.Float64(a.Key, v.Float64())
	case slog.KindBool:
		line.Bool(a.Key, v.Bool())
	case slog.KindTime:
		line.Time(a.Key, v.Time())
	case slog.KindDuration:
		line.Str(a.Key, v.Duration().String())
	default:
		appendAny(line, a.Key, v.Any())
	}
}

func appendAny(line *zerolog.Event, key string, v any) {
	switch v := v.(type) {
	case nil:
		if key != "" { // slog ignores the zero Attr
			line.Interface(key, nil)
		}
	case error:
		line.AnErr(key, v)
	case []string:
		line.Strs(key, v)
	default:
		line.Interface(key, v)
	}
}

// appendGroup appends a group as an object. As slog requires, an empty group is ignored, and a
// group without a key is replaced by its attributes.
func appendGroup(line *zerolog.Event, key string, attrs []slog.Attr) {
	switch {
	case len(attrs) == 0:
	case key == "":
		appendAttrs(line, attrs)
	default:
		object := line.CreateDict()
		appendAttrs(object, attrs)
		line.Dict(key, object)
	}
}

// levelOf returns the highest zerolog level that is not above a slog level.
func levelOf(l slog.Level) zerolog.Level {
	switch {
	case l >= slog.LevelError:
		return zerolog.ErrorLevel
	case l >= slog.LevelWarn:
		return zerolog.WarnLevel
	case l >= slog.LevelInfo:
		return zerolog.InfoLevel
	case l >= slog.LevelDebug:
		return zerolog.DebugLevel
	default:
		return zerolog.TraceLevel
	}
}
