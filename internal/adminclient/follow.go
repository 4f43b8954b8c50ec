// SPDX-License-Identifier: Apache-2.0

package adminclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
)

// silenceTimeout is how long a client waits for the next line of a stream. A node writes a line at
// least every KeepAliveInterval.
const silenceTimeout = 3 * adminapi.KeepAliveInterval

var (
	errSilent = errors.New("the node has stopped responding")
	errStop   = errors.New("the caller stopped the iteration")
	// errForeign means that an event is not from a node.
	errForeign = errors.New("not an event of an Athena node")
)

// Events yields the current status as an EventSnapshot, then each change, until ctx or the node
// ends. Given the id of an event that the node still has, Events continues after that event without
// a snapshot. If an error occurs, it is the last element, for example when the node no longer
// accepts the credentials. The end of ctx or of the node is not an error.
func (c *Client) Events(ctx context.Context, after string) iter.Seq2[adminapi.Event, error] {
	query := url.Values{}
	if after != "" {
		query.Set("last_event_id", after)
	}
	return c.readEvents(ctx, query)
}

// Recent yields the changes that the node still has, at most EventHistory, then the current status
// as an EventSnapshot. See Events.
func (c *Client) Recent(ctx context.Context) iter.Seq2[adminapi.Event, error] {
	return c.readEvents(ctx, url.Values{"follow": {"false"}})
}

func (c *Client) readEvents(
	ctx context.Context, query url.Values,
) iter.Seq2[adminapi.Event, error] {
	return func(yield func(adminapi.Event, error) bool) {
		err := c.openStream(ctx, http.MethodGet, "/v1/events?"+query.Encode(), nil,
			func(r rawEvent) error {
				if r.kind == adminapi.EventLost {
					return responseError(http.StatusOK, r.data)
				}
				e := adminapi.Event{ID: r.id, Type: r.kind}
				switch known, err := e.Decode(r.data); {
				case err != nil:
					return errForeign
				case known && !yield(e, nil):
					return errStop
				}
				return nil
			})
		if err != nil && !errors.Is(err, errStop) && ctx.Err() == nil {
			yield(adminapi.Event{}, err)
		}
	}
}

// rawEvent is an undecoded server-sent event.
type rawEvent struct {
	id, kind string
	data     []byte
}

// openStream requests a stream and calls the function take for each event, until the stream or ctx
// ends or take returns an error.
func (c *Client) openStream(
	ctx context.Context, method, path string, body []byte, take func(rawEvent) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(ClientTimeout, func() { cancel(errSilent) })
	defer silence.Stop()
	err := c.readStream(ctx, method, path, body, func() { silence.Reset(silenceTimeout) }, take)
	if errors.Is(context.Cause(ctx), errSilent) {
		return c.brokeOff(errSilent)
	}
	return err
}

// readStream is like openStream, but without timeouts. It calls the function alive for each line.
func (c *Client) readStream(
	ctx context.Context, method, path string, body []byte, alive func(), take func(rawEvent) error,
) error {
	resp, err := c.doRequest(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		// an ErrorBody, or the response of another server
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
		return responseError(resp.StatusCode, body)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswerBytes)
	var r rawEvent
	for lines.Scan() {
		alive()
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			r.id = string(value)
		case "event":
			r.kind = string(value)
		case "data":
			r.data = bytes.Clone(value)
		}
		if len(lines.Bytes()) > 0 {
			continue
		}
		err := take(r)
		switch {
		case errors.Is(err, errForeign):
			return &Error{Status: resp.StatusCode, Text: describeStatus(resp.StatusCode)}
		case err != nil:
			return err
		}
		r = rawEvent{}
	}
	if lines.Err() != nil {
		return c.brokeOff(lines.Err())
	}
	return nil
}
