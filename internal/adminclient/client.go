// SPDX-License-Identifier: Apache-2.0

// Package adminclient asks the admin API of a node, or acts on the node through it.
package adminclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/safetext"
)

// Limits of a Client. To decode an answer takes about a hundred times its bytes at
// most; one of 255 members has less than 300 KiB.
const (
	ClientTimeout  = 5 * time.Second
	maxAnswerBytes = 1 << 20
	maxErrorBytes  = 4 << 10
)

// Client asks the admin API of a node, or acts on it. Its methods block until the
// answer, for five seconds at most, those that act for twenty, or until ctx ends. An
// error that the node answered with is an *Error; other errors name the address.
type Client struct {
	http  http.Client
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	addr  string
	base  string
	token func() string // nil for none
}

// Option changes a Client.
type Option func(*Client)

// WithToken makes a Client show the token that current returns.
func WithToken(current func() string) Option {
	return func(c *Client) { c.token = current }
}

// WithDial makes a Client connect in another way than by its address.
func WithDial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(c *Client) { c.dial = dial }
}

// Error is an error that the API answered with.
type Error struct {
	Status int    // of HTTP
	Code   string // one of the Code constants; empty when no node answered so
	Text   string // printable, in one line
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// New returns a client of the node at "host:port" or "unix:PATH". It
// connects to nothing yet.
func New(addr string, opts ...Option) (*Client, error) {
	c := &Client{addr: addr, base: "http://" + addr, dial: new(net.Dialer).DialContext}
	_, port, err := net.SplitHostPort(addr)
	path, isSocket := strings.CutPrefix(addr, adminapi.UnixPrefix)
	switch {
	case isSocket && path != "":
		c.base = "http://localhost"
		c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	case err != nil || port == "":
		return nil, fmt.Errorf("%w %q: want host:port or unix:PATH", adminapi.ErrAddress, addr)
	}
	for _, opt := range opts {
		opt(c)
	}
	c.http = http.Client{
		Transport: &http.Transport{
			DialContext:            c.dial,
			DisableKeepAlives:      true,
			DisableCompression:     true, // a few bytes must not become many
			MaxResponseHeaderBytes: adminapi.MaxHeaderBytes,
		},
		CheckRedirect: refuseRedirect,
	}
	return c, nil
}

// refuseRedirect returns a redirect as the answer: no node redirects.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Status asks for everything that the node reports about itself.
func (c *Client) Status(ctx context.Context) (adminapi.Status, error) {
	return getJSON[adminapi.Status](ctx, c, "/v1/status")
}

// Members asks for the members that the node sees.
func (c *Client) Members(ctx context.Context) ([]adminapi.Member, error) {
	return getJSON[[]adminapi.Member](ctx, c, "/v1/members")
}

// Leader asks for the quorate leader. Without one the error is an *Error with
// CodeNoQuorum.
func (c *Client) Leader(ctx context.Context) (adminapi.Leader, error) {
	return getJSON[adminapi.Leader](ctx, c, "/v1/leader")
}

// Send sends an event to a member, or to all, and waits for its handlers there. A nil error
// means that it was sent to all, not that each member has handled it.
func (c *Client) Send(ctx context.Context, event adminapi.SendRequest) (adminapi.Sent, error) {
	return postJSON[adminapi.Sent](ctx, c, "/v1/send", event)
}

// Transfer makes the node, which must lead, hand leadership over to a member by its address
// or name, or to any member if to is empty. It waits until another member leads.
func (c *Client) Transfer(ctx context.Context, to string) (adminapi.HandedOver, error) {
	return postJSON[adminapi.HandedOver](ctx, c, "/v1/transfer", adminapi.TransferRequest{To: to})
}

// Drain keeps the node from leading for the rest of its run, and waits until another
// leads.
func (c *Client) Drain(ctx context.Context) (adminapi.HandedOver, error) {
	return postJSON[adminapi.HandedOver](ctx, c, "/v1/drain", adminapi.Empty{})
}

// Leave lets the node leave its cluster in order, and end. It does not wait for that.
func (c *Client) Leave(ctx context.Context) error {
	_, err := postJSON[adminapi.Done](ctx, c, "/v1/leave", adminapi.Empty{})
	return err
}

func getJSON[T any](ctx context.Context, c *Client, path string) (value T, err error) {
	ctx, cancel := context.WithTimeout(ctx, ClientTimeout)
	defer cancel()
	return answerOf[T](ctx, c, http.MethodGet, path, nil)
}

func postJSON[T any](ctx context.Context, c *Client, path string, body any) (value T, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return value, fmt.Errorf("admin: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, adminapi.ActTimeout+ClientTimeout)
	defer cancel()
	return answerOf[T](ctx, c, http.MethodPost, path, text)
}

func answerOf[T any](
	ctx context.Context, c *Client, method, path string, text []byte,
) (value T, err error) {
	resp, err := c.doRequest(ctx, method, path, text)
	if err != nil {
		return value, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return value, c.brokeOff(err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
		return value, answeredError(resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, &value); err != nil {
		return value, &Error{Status: resp.StatusCode, Text: describeStatus(resp.StatusCode)}
	}
	return value, nil
}

// doRequest sends a request and returns the head of its answer.
func (c *Client) doRequest(
	ctx context.Context, method, path string, body []byte,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", adminapi.ErrAddress, err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != nil {
		req.Header.Set("Authorization", "Bearer "+c.token())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var asked *url.Error // names a URL, which a socket has none
		if errors.As(err, &asked) {
			err = asked.Err
		}
		return nil, fmt.Errorf("admin: no answer from %s: %w", c.addr, err)
	}
	return resp, nil
}

func (c *Client) brokeOff(err error) error {
	return fmt.Errorf("admin: the answer of %s broke off: %w", c.addr, err)
}

func answeredError(status int, body []byte) error {
	var told adminapi.ErrorBody
	if json.Unmarshal(body, &told) != nil || told.Error == "" {
		told = adminapi.ErrorBody{Error: describeStatus(status)}
	}
	return &Error{status, told.Code, safetext.OneLine(told.Error, maxErrorBytes)}
}

// describeStatus returns the text for an answer that is not from this API.
func describeStatus(status int) string {
	return strings.TrimSpace(fmt.Sprintf("answered with %d %s", status, http.StatusText(status)))
}
