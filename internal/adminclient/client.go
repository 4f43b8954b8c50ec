// SPDX-License-Identifier: Apache-2.0

// Package adminclient is the client of the admin API of a node.
package adminclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

// Limits of a Client. Decoding a response may allocate up to about 100 times its size. The status
// of 255 members with the longest labels is smaller than 1.2 MiB.
const (
	ClientTimeout  = 5 * time.Second
	maxAnswerBytes = 2 << 20
	maxErrorBytes  = 4 << 10
)

// Client is a client of the admin API of a node. Its methods block until the node responds, for at
// most 5 seconds, or 20 seconds for write requests. An error response of the node is an *Error;
// other errors name the address.
type Client struct {
	nodes []*endpoint
	last  atomic.Int32 // index of the node that answered the last request
	dial  dialFunc
	token func() string // nil for none
	tls   *tls.Config   // nil for plain HTTP

	caller string // empty for none
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// endpoint is the admin API of one node.
type endpoint struct {
	http  http.Client
	hasty http.Client // asks a question that another node can answer too
	addr  string
	base  string
}

// dialTimeout is how long a client of several nodes waits for a connection to each of them.
const dialTimeout = time.Second

// Errors if only the client or only the server uses TLS.
var (
	ErrNeedsTLS = errors.New("the server uses TLS: set --admin-ca")
	ErrNoTLS    = errors.New("the server does not use TLS: leave out --admin-ca")
)

// plainRefused is how net/http answers a request without TLS on a port with TLS.
const plainRefused = "Client sent an HTTP request to an HTTPS server."

// Option configures a Client.
type Option func(*Client)

// WithToken makes a Client send the token that the function current returns.
func WithToken(current func() string) Option {
	return func(c *Client) { c.token = current }
}

// WithCaller makes a Client name itself in requests for locks and jobs.
func WithCaller(text string) Option { return func(c *Client) { c.caller = text } }

// WithTLS makes a Client use TLS.
func WithTLS(config *tls.Config) Option { return func(c *Client) { c.tls = config } }

// WithDial sets the function that connects to the node.
func WithDial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(c *Client) { c.dial = dial }
}

// Error is an error response.
type Error struct {
	Status int    // HTTP status
	Code   string // one of adminapi.Code...; empty if the response is not from a node
	Text   string // one printable line
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// ConnectionError means that no server responded, or that the response did not end.
type ConnectionError struct {
	text string
	err  error
}

// Error implements error.
func (e *ConnectionError) Error() string { return fmt.Sprintf("admin: %s: %v", e.text, e.err) }

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.err }

// New returns a client of the node at "host:port" or "unix:PATH". Of several addresses with commas
// between them, each request goes to the first node that accepts a connection within a second. A
// question, which changes nothing, goes to the next node if a node does not begin to answer within
// its share of the 5 seconds. The client begins with the node that it used last. New does not
// connect.
func New(addr string, opts ...Option) (*Client, error) {
	c := &Client{}
	for _, opt := range opts {
		opt(c)
	}
	all := strings.Split(addr, ",")
	for _, one := range all {
		e, err := c.newEndpoint(one, len(all))
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, e)
	}
	return c, nil
}

// newEndpoint returns the admin API of one of some nodes.
func (c *Client) newEndpoint(addr string, nodes int) (*endpoint, error) {
	dialer := &net.Dialer{}
	if nodes > 1 {
		dialer.Timeout = dialTimeout
	}
	e, dial := &endpoint{addr: addr, base: "http://" + addr}, dialFunc(dialer.DialContext)
	host, port, err := net.SplitHostPort(addr)
	path, isSocket := strings.CutPrefix(addr, adminapi.UnixPrefix)
	switch {
	case isSocket && path != "":
		e.base = "http://localhost"
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	case err != nil || port == "":
		return nil, fmt.Errorf("%w %q: must be host:port or unix:PATH", adminapi.ErrAddress, addr)
	case host == "":
		e.base = "http://localhost:" + port // a node refuses an empty host
	}
	if c.dial != nil {
		dial = c.dial
	}
	if c.tls != nil {
		e.base = "https" + strings.TrimPrefix(e.base, "http")
	}
	patient := &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        c.tls,
		DisableKeepAlives:      true,
		DisableCompression:     true, // a small response must not decompress into a large one
		MaxResponseHeaderBytes: adminapi.MaxHeaderBytes,
	}
	e.http = http.Client{Transport: patient, CheckRedirect: refuseRedirect}
	hasty := patient.Clone()
	hasty.ResponseHeaderTimeout = ClientTimeout / time.Duration(nodes)
	e.hasty = http.Client{Transport: hasty, CheckRedirect: refuseRedirect}
	return e, nil
}

// EachNode returns a client of each node, in the order of their addresses in New.
func (c *Client) EachNode() (all []*Client) {
	for _, e := range c.nodes {
		all = append(all, &Client{nodes: []*endpoint{e}, dial: c.dial, token: c.token, tls: c.tls})
	}
	return all
}

// Address returns the addresses that New got.
func (c *Client) Address() string {
	var all []string
	for _, e := range c.nodes {
		all = append(all, e.addr)
	}
	return strings.Join(all, ",")
}

// refuseRedirect makes the client return a redirect as the response instead of following it, since
// nodes do not redirect.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Status returns the status of the node.
func (c *Client) Status(ctx context.Context) (adminapi.Status, error) {
	return getJSON[adminapi.Status](ctx, c, "/v1/status")
}

// NodeStatus returns the status of the member with the given name, which the node asks for it.
func (c *Client) NodeStatus(ctx context.Context, name string) (adminapi.Status, error) {
	return getJSON[adminapi.Status](ctx, c, "/v1/nodes/"+url.PathEscape(name)+"/status")
}

// Members returns the members in the node's view, with the builds of those that answer the node.
func (c *Client) Members(ctx context.Context) ([]adminapi.Member, error) {
	return getJSON[[]adminapi.Member](ctx, c, "/v1/members?build")
}

// Leader returns the quorate leader. If there is none, the error is an *Error with
// adminapi.CodeNoQuorum.
func (c *Client) Leader(ctx context.Context) (adminapi.Leader, error) {
	return getJSON[adminapi.Leader](ctx, c, "/v1/leader")
}

// Send sends an event to one member or to all members, and waits for the handlers. A nil error does
// not mean that every member has handled the event; see the results.
func (c *Client) Send(ctx context.Context, event adminapi.SendRequest) (adminapi.Sent, error) {
	return postJSON[adminapi.Sent](ctx, c, "/v1/send", event)
}

// Transfer makes the leader hand over leadership to the member with the given address or name, and
// waits until that member leads. If that is empty, the leader chooses the member.
func (c *Client) Transfer(ctx context.Context, to string) (adminapi.HandedOver, error) {
	return postJSON[adminapi.HandedOver](ctx, c, "/v1/transfer", adminapi.TransferRequest{To: to})
}

// Drain keeps a member from leading until its process restarts, and waits until another member
// leads. An empty member stands for the node.
func (c *Client) Drain(ctx context.Context, member string) (adminapi.HandedOver, error) {
	body := adminapi.DrainRequest{Member: member}
	return postJSON[adminapi.HandedOver](ctx, c, "/v1/drain", body)
}

// Prefer sets the preference of a member until its process restarts. If the member leads and never
// leads from now on, Prefer waits until another member leads. An empty name stands for the node.
func (c *Client) Prefer(
	ctx context.Context, name string, p member.Preference,
) (adminapi.HandedOver, error) {
	body := adminapi.PreferRequest{Preference: adminapi.Preference(p), Member: name}
	return postJSON[adminapi.HandedOver](ctx, c, "/v1/prefer", body)
}

// Label sets the labels of the node that have a value, and removes those that are nil, until its
// process restarts. It returns all labels of the node.
func (c *Client) Label(ctx context.Context, labels map[string]*string) (adminapi.Labels, error) {
	body := adminapi.LabelRequest{Labels: labels}
	return postJSON[adminapi.Labels](ctx, c, "/v1/labels", body)
}

// ReleaseSeats removes the seats of members that left until the cluster has keep members. The node
// must be the leader.
func (c *Client) ReleaseSeats(ctx context.Context, keep int) error {
	_, err := postJSON[adminapi.Done](ctx, c, "/v1/seats", adminapi.SeatsRequest{Keep: keep})
	return err
}

// Leave makes the node leave its cluster and exit. It does not wait until the node has left.
func (c *Client) Leave(ctx context.Context) error {
	_, err := postJSON[adminapi.Done](ctx, c, "/v1/leave", adminapi.Empty{})
	return err
}

func getJSON[T any](ctx context.Context, c *Client, path string) (value T, err error) {
	ctx, cancel := context.WithTimeout(ctx, ClientTimeout)
	defer cancel()
	return responseOf[T](ctx, c, http.MethodGet, path, nil)
}

func postJSON[T any](ctx context.Context, c *Client, path string, body any) (value T, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return value, fmt.Errorf("admin: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, adminapi.ActTimeout+ClientTimeout)
	defer cancel()
	return responseOf[T](ctx, c, http.MethodPost, path, text)
}

func responseOf[T any](
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
		return value, responseError(resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, &value); err != nil {
		return value, &Error{Status: resp.StatusCode, Text: describeStatus(resp.StatusCode)}
	}
	return value, nil
}

// doRequest sends a request to the first node that accepts a connection, and a question to the
// first that answers. It returns the response with an unread body.
func (c *Client) doRequest(
	ctx context.Context, method, path string, body []byte,
) (resp *http.Response, err error) {
	first := int(c.last.Load())
	for i := range c.nodes {
		n := (first + i) % len(c.nodes)
		client := &c.nodes[n].http
		mayAskNext := method == http.MethodGet && i < len(c.nodes)-1
		if mayAskNext {
			client = &c.nodes[n].hasty
		}
		resp, err = c.askNode(ctx, c.nodes[n], client, method, path, body)
		var failed net.Error
		var dial *net.OpError
		isSilent := errors.As(err, &failed) && failed.Timeout() && ctx.Err() == nil
		isDown := errors.As(err, &dial) && dial.Op == "dial"
		if err == nil || !isDown && !(mayAskNext && isSilent) {
			c.last.Store(int32(n))
			return resp, err
		}
	}
	return nil, err
}

func (c *Client) askNode(
	ctx context.Context, e *endpoint, client *http.Client, method, path string, body []byte,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", adminapi.ErrAddress, err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		if c.caller != "" {
			req.Header.Set(adminapi.CallerHeader, c.caller)
		}
	}
	if c.token != nil {
		req.Header.Set("Authorization", "Bearer "+c.token())
	}
	resp, err := client.Do(req)
	if err != nil {
		var urlErr *url.Error // the URL is meaningless for a Unix socket
		if errors.As(err, &urlErr) {
			err = urlErr.Err
		}
		if errors.Is(err, http.ErrSchemeMismatch) {
			err = ErrNoTLS
		}
		return nil, &ConnectionError{"no response from " + c.Address(), err}
	}
	return resp, nil
}

func (c *Client) brokeOff(err error) error {
	return &ConnectionError{"lost the connection to " + c.nodes[c.last.Load()].addr, err}
}

// responseError returns the error for a response with an ErrorBody, or for one that is not from a
// node.
func responseError(status int, body []byte) error {
	if status == http.StatusBadRequest && bytes.Contains(body, []byte(plainRefused)) {
		return ErrNeedsTLS
	}
	var e adminapi.ErrorBody
	if json.Unmarshal(body, &e) != nil || e.Error == "" {
		e = adminapi.ErrorBody{Error: describeStatus(status)}
	}
	return &Error{status, e.Code, safetext.OneLine(e.Error, maxErrorBytes)}
}

// describeStatus returns the error text for a response that is not from a node.
func describeStatus(status int) string {
	return strings.TrimSpace(fmt.Sprintf("it responded %d %s", status, http.StatusText(status)))
}
