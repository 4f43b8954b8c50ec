// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
)

// Limits on event streams.
const (
	// streamTimeout limits how long a write to a slow reader may block.
	streamTimeout = 30 * time.Second
	// reconnectInterval is how long a browser waits before it reconnects.
	reconnectInterval = time.Second
)

// streams serves /v1/events, and counts all read-only streams.
type streams struct {
	feed *feed
	open atomic.Int64
}

// place is the position where a stream starts.
type place struct {
	lastID string // the last event that the reader received; empty if none
	follow bool   // keep the stream open for later changes
}

func (s *streams) serveStream(w http.ResponseWriter, r *http.Request) {
	at, err := placeOf(r)
	if err != nil {
		adminapi.WriteError(w, http.StatusBadRequest, adminapi.CodeBadQuery, err.Error())
		return
	}
	s.admitStream(w, r, func(ctx context.Context) {
		out := &stream{feed: s.feed, eventWriter: beginEvents(w)}
		if r.Method != http.MethodHead {
			out.writeAll(ctx, at)
		}
	})
}

// admitStream runs a stream with the context of keepStream, or refuses it if too many are open.
func (s *streams) admitStream(
	w http.ResponseWriter, r *http.Request, run func(context.Context),
) {
	defer s.open.Add(-1)
	if s.open.Add(1) > adminapi.MaxEventStreams {
		adminapi.WriteError(w, http.StatusServiceUnavailable, adminapi.CodeBusy,
			fmt.Sprintf("busy: %d event streams are open, which is the maximum: close one",
				adminapi.MaxEventStreams))
		return
	}
	ctx, stop := keepStream(r)
	defer stop()
	run(ctx)
}

// placeOf reads the query, and the header that browsers send when they reconnect.
func placeOf(r *http.Request) (place, error) {
	at := place{lastID: r.Header.Get("Last-Event-ID"), follow: true}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return at, fmt.Errorf("query %q of %s: %w", r.URL.RawQuery, r.URL.Path, err)
	}
	for word, values := range query {
		value := values[len(values)-1]
		switch word {
		case "last_event_id":
			if at.lastID == "" {
				at.lastID = value
			}
		case "follow":
			if at.follow, err = strconv.ParseBool(value); err != nil {
				return at, fmt.Errorf("query follow=%q: must be true, 1, false or 0", value)
			}
		default:
			return at, fmt.Errorf("unknown query %q: %s accepts ?last_event_id and ?follow",
				word, r.URL.Path)
		}
	}
	return at, nil
}

// stream is the event stream of one reader.
type stream struct {
	*eventWriter
	feed *feed
	next uint64 // number of the next change
}

// writeAll writes events until ctx ends or the node closes. Without follow, it ends after the
// snapshot.
func (s *stream) writeAll(ctx context.Context, at place) {
	var known bool
	s.next, known = s.feed.findAfter(at.lastID)
	s.writeText("retry: %d\n\n", reconnectInterval.Milliseconds())
	switch {
	case known:
	case at.follow:
		s.writeSnapshot()
	default:
		s.next = s.feed.oldestNumber()
	}
	idle := time.NewTimer(adminapi.KeepAliveInterval)
	defer idle.Stop()
	for {
		b := s.feed.changesSince(s.next)
		s.writeBatch(b, at.follow)
		if !at.follow {
			s.writeSnapshot()
		}
		s.flushText()
		if b.over || !at.follow || s.err != nil {
			return
		}
		idle.Reset(adminapi.KeepAliveInterval)
		select {
		case <-b.changed:
		case <-idle.C:
			s.writeComment()
		case <-ctx.Done():
			s.writeRefusal(ctx)
			return
		}
	}
}

// writeBatch writes changes. If changes are missing and the stream stays open, writeBatch writes a
// snapshot instead.
func (s *stream) writeBatch(b batch, follow bool) {
	if b.missed > 0 {
		s.writeEvent("", adminapi.EventLagged, adminapi.Encode(adminapi.Lagged{Missed: b.missed}))
		s.next += b.missed
		if follow {
			s.writeSnapshot()
			return
		}
	}
	for _, e := range b.entries {
		if e.kind == adminapi.EventLagged { // this process missed events of the node
			s.writeEvent("", e.kind, e.data)
			if follow {
				s.writeSnapshot()
				return
			}
		} else {
			s.writeEvent(s.feed.eventID(s.next), e.kind, e.data)
		}
		s.next++
	}
}

// writeSnapshot writes the current status, and continues with later changes.
func (s *stream) writeSnapshot() {
	number, data := s.feed.takeSnapshot()
	s.writeEvent(s.feed.eventID(number), adminapi.EventSnapshot, data)
	s.next = number + 1
}

// eventWriter writes server-sent events to one reader. After the first error it writes nothing.
type eventWriter struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
}

// beginEvents sets the headers of an event stream.
func beginEvents(w http.ResponseWriter) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // disables the buffering of nginx
	rc := http.NewResponseController(w)
	// The read deadline of the request must not end the stream. The error is ignored, since tests
	// have no connection.
	_ = rc.SetReadDeadline(time.Time{})
	return &eventWriter{w: w, rc: rc}
}

func (e *eventWriter) writeEvent(id, kind string, data []byte) {
	if id != "" {
		e.writeText("id: %s\n", id)
	}
	e.writeText("event: %s\ndata: %s\n\n", kind, data)
}

// writeLost writes the EventLost that ends a stream or a grant.
func (e *eventWriter) writeLost(err error) {
	e.writeEvent("", adminapi.EventLost,
		adminapi.Encode(adminapi.ErrorBody{Error: textOf(err), Code: codeOf(err)}))
}

// writeRefusal writes an EventLost if a refusal ended the context of the stream.
func (e *eventWriter) writeRefusal(ctx context.Context) {
	if err := refusalOf(ctx, nil); err != nil {
		e.writeLost(err)
	}
}

// writeComment writes a keep-alive.
func (e *eventWriter) writeComment() { e.writeText(":\n\n") }

func (e *eventWriter) writeText(format string, args ...any) {
	if e.err == nil {
		_ = e.rc.SetWriteDeadline(time.Now().Add(streamTimeout)) // fails only in tests
		_, e.err = fmt.Fprintf(e.w, format, args...)
	}
}

func (e *eventWriter) flushText() {
	if e.err == nil {
		e.err = e.rc.Flush()
	}
}
