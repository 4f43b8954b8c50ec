// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"time"
)

// silenceTimeout is how long a client waits for the next line of a stream: a node
// writes one each keepAliveInterval, whatever happens.
const silenceTimeout = 3 * keepAliveInterval

var (
	errSilent = errors.New("the node says nothing any more")
	errEnough = errors.New("the caller wants no more events")
)

// Events yields the present status as an EventSnapshot, then each change, until ctx or
// the node ends. After the event with the id after, where that is not empty, it
// continues without a snapshot, as far as the node remembers. An error is the last
// that it yields; the end of ctx or of the node is none.
func (c *Client) Events(ctx context.Context, after string) iter.Seq2[Event, error] {
	query := url.Values{}
	if after != "" {
		query.Set("last_event_id", after)
	}
	return c.events(ctx, query)
}

// Recent yields the changes that the node remembers, EventHistory at most, and then
// its present status as an EventSnapshot. See Events.
func (c *Client) Recent(ctx context.Context) iter.Seq2[Event, error] {
	return c.events(ctx, url.Values{"follow": {"false"}})
}

func (c *Client) events(ctx context.Context, query url.Values) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		reading, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		silence := time.AfterFunc(clientTimeout, func() { cancel(errSilent) })
		defer silence.Stop()
		err := c.read(reading, query, func() { silence.Reset(silenceTimeout) },
			func(e Event) bool { return yield(e, nil) })
		if errors.Is(context.Cause(reading), errSilent) {
			err = c.brokeOff(errSilent)
		}
		if err != nil && !errors.Is(err, errEnough) && ctx.Err() == nil {
			yield(Event{}, err)
		}
	}
}

// read asks for a stream and reads it to its end. alive is called for each line.
func (c *Client) read(
	ctx context.Context, query url.Values, alive func(), yield func(Event) bool,
) error {
	resp, err := c.do(ctx, http.MethodGet, "/v1/events?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes)) // an error, or nothing of ours
		return answeredError(resp.StatusCode, body)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswerBytes)
	var e Event
	var data []byte
	for lines.Scan() {
		alive()
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			e.ID = string(value)
		case "event":
			e.Type = string(value)
		case "data":
			data = bytes.Clone(value)
		}
		if len(lines.Bytes()) > 0 {
			continue
		}
		known, err := e.take(data)
		switch {
		case err != nil:
			return &Error{Status: resp.StatusCode, Text: answered(resp.StatusCode)}
		case known && !yield(e):
			return errEnough
		}
		e, data = Event{}, nil
	}
	if lines.Err() != nil {
		return c.brokeOff(lines.Err())
	}
	return nil
}

// take decodes the data of an event; false for a type that this client does not know.
func (e *Event) take(data []byte) (known bool, err error) {
	var into any
	switch e.Type {
	case EventSnapshot:
		e.Snapshot = new(Status)
		into = e.Snapshot
	case EventMember:
		e.Member = new(MemberChange)
		into = e.Member
	case EventLeader:
		e.Leader = new(LeaderChange)
		into = e.Leader
	case EventLagged:
		e.Lagged = new(Lagged)
		into = e.Lagged
	default:
		return false, nil
	}
	return true, json.Unmarshal(data, into)
}
