// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

// living is a node that reports the events of the test.
type living struct {
	fake
	events chan cluster.Event // closed when the node closes
}

func (n living) Events(ctx context.Context) iter.Seq[cluster.Event] {
	return func(yield func(cluster.Event) bool) {
		for e := range n.events {
			if !yield(e) {
				return
			}
		}
	}
}

// joins sends the event that n3 joins for the given time.
func (n living) joins(times uint64) {
	m := n.View.Members[2]
	m.Status, m.Gone, m.Incarnation = member.Active, false, times
	n.events <- cluster.MemberChanged{Member: m}
}

// wires is an in-memory listener whose connections are unbuffered.
type wires struct {
	dialed chan net.Conn
	closed chan struct{}
}

func (l wires) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l wires) Close() error   { close(l.closed); return nil }
func (l wires) Addr() net.Addr { return wireAddr{} }

type wireAddr struct{}

func (wireAddr) Network() string { return "wire" }
func (wireAddr) String() string  { return "wire" }

// served is a node and its API in a synctest bubble.
type served struct {
	t    *testing.T
	node living
	l    wires
	stop context.CancelFunc
	done chan error

	closed sync.Once
}

func serveInBubble(t *testing.T, opts ...admin.AccessOption) *served {
	t.Helper()
	s := &served{
		t: t, node: living{leading(t), make(chan cluster.Event)},
		l:    wires{make(chan net.Conn), make(chan struct{})},
		done: make(chan error, 1),
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	h := admin.New(s.node, "v0.1")
	go func() { s.done <- admin.Serve(ctx, s.l, h, opts...) }()
	return s
}

// closeNode closes the node.
func (s *served) closeNode() { s.closed.Do(func() { close(s.node.events) }) }

// end closes the node and its server.
func (s *served) end() {
	s.t.Helper()
	s.closeNode()
	s.stop()
	if err := <-s.done; err != nil {
		s.t.Errorf("Serve: %v, want nil", err)
	}
}

// reader is a client and its connection.
type reader struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	resp *http.Response
	body *bufio.Reader
}

// get sends a GET request on a new connection and reads the header of the response.
func (s *served) get(path string, header ...string) *reader {
	s.t.Helper()
	here, there := net.Pipe()
	s.l.dialed <- there
	r := &reader{t: s.t, conn: here, in: bufio.NewReader(here)}
	fmt.Fprintf(here, "GET %s HTTP/1.1\r\nHost: localhost\r\n", path)
	for _, line := range header {
		fmt.Fprintf(here, "%s\r\n", line)
	}
	fmt.Fprint(here, "\r\n")
	var err error
	if r.resp, err = http.ReadResponse(r.in, nil); err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
	r.body = bufio.NewReader(r.resp.Body)
	return r
}

// sent is one event read from a stream. A comment has only data.
type sent struct{ id, kind, data string }

// next reads an event or a comment. It returns the zero value at the end of the stream.
func (r *reader) next() (e sent) {
	r.t.Helper()
	for {
		line, err := r.body.ReadString('\n')
		if err == io.EOF {
			return sent{}
		} else if err != nil {
			r.t.Fatalf("reading a stream: %v after %q", err, line)
		}
		switch field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":"); {
		case field == "id":
			e.id = strings.TrimSpace(value)
		case field == "event":
			e.kind = strings.TrimSpace(value)
		case field == "data":
			e.data = strings.TrimSpace(value)
		case line == ":\n":
			e.kind = "comment"
		case line == "\n" && e != sent{}:
			return e
		}
	}
}

// want reads events, checks their types and returns them.
func (r *reader) want(kinds ...string) (all []sent) {
	r.t.Helper()
	for _, kind := range kinds {
		e := r.next()
		if e.kind != kind {
			r.t.Fatalf("after %+v: %+v, want %s of %q", all, e, kind, kinds)
		}
		all = append(all, e)
	}
	return all
}

// TestStream checks that a stream starts with a snapshot and then numbers each change.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		r := s.get("/v1/events")
		if kind := r.resp.Header.Get("Content-Type"); kind != "text/event-stream" {
			t.Errorf("Content-Type %q, want text/event-stream", kind)
		}
		first := r.want("snapshot")[0]
		status, want := value(t, first.data), value(t, statusShape)
		if fmt.Sprint(status) != fmt.Sprint(want) {
			t.Errorf("snapshot %v, want %v", status, want)
		}
		s.node.joins(18)
		s.node.events <- cluster.LeaderChanged{
			Leader: s.node.View.Members[1], Version: 5, Quorate: true, Cause: "crash",
		}
		s.node.events <- cluster.LeaderChanged{}
		all := append([]sent{first}, r.want("member", "leader", "leader")...)
		at := time.Now().UTC().Format(time.RFC3339Nano)
		for i, want := range []string{"", `{"time": "` + at + `", "before": null, "member": {
			"name": "n3", "address": "10.0.0.3:7000", "seed": false, "status": "active",
			"incarnation": 18, "incarnation_text": "18"}}`,
			`{"time": "` + at + `", "address": "10.0.0.2:7000",
			"name": "n2", "version": 5, "version_text": "5", "quorate": true, "cause": "crash"}`,
			`{"time": "` + at + `", "address": "", "name": "", "version": 0, "version_text": "0",
				"quorate": false, "cause": ""}`,
		} {
			run, number, _ := strings.Cut(all[i].id, "-")
			if firstRun, _, _ := strings.Cut(first.id, "-"); run != firstRun || number != fmt.Sprint(i) {
				t.Errorf("event %d has the id %q, want the run of %q and number %d", i, all[i].id, first.id, i)
			}
			if i > 0 && fmt.Sprint(value(t, all[i].data)) != fmt.Sprint(value(t, want)) {
				t.Errorf("event %d: %s, want %s", i, all[i].data, want)
			}
		}
		s.closeNode()
		if e := r.next(); e != (sent{}) {
			t.Errorf("after the node has closed: %+v, want the end of the stream", e)
		}
		r.conn.Close()
		r = s.get("/v1/events")
		r.want("snapshot", "") // the last status of the closed node
		r.conn.Close()
		s.end()
	})
}

// TestStreamEndsWithItsServer checks that a stream ends with its server while the node keeps
// running. The server polls for closed connections every few milliseconds.
func TestStreamEndsWithItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		r := s.get("/v1/events")
		r.want("snapshot")
		began := time.Now()
		s.stop()
		r.want("")
		if err := <-s.done; err != nil || time.Since(began) > 20*time.Millisecond {
			t.Errorf("Serve ended after %v with %v, want no delay and nil", time.Since(began), err)
		}
		s.done <- nil
		r.conn.Close()
		s.end()
	})
}

// TestStreamContinues checks that a stream continues after the last event id, which is in the
// header or the query. If the node no longer has that event, the stream starts with a snapshot.
func TestStreamContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		r := s.get("/v1/events")
		r.want("snapshot")
		s.node.joins(1)
		s.node.joins(2)
		had := r.want("member", "member")
		r.conn.Close()
		s.node.joins(3)
		run, _, _ := strings.Cut(had[0].id, "-")
		for _, c := range []struct {
			query, header string
			want          []string
		}{
			{"", "Last-Event-ID: " + had[0].id, []string{"member", "member"}},
			{"?last_event_id=" + had[1].id, "", []string{"member"}},
			{"?last_event_id=" + had[0].id, "Last-Event-ID: " + had[1].id, []string{"member"}},
			{"?last_event_id=" + run + "-3", "", nil},
			{"?last_event_id=" + run + "-4", "", []string{"snapshot"}}, // not given yet
			{"?last_event_id=0123456789abcdef-1", "", []string{"snapshot"}},
			{"?last_event_id=nonsense", "", []string{"snapshot"}},
			{"?last_event_id=" + run + "--1", "", []string{"snapshot"}},
			{"?follow=false", "", []string{"member", "member", "member", "snapshot", ""}},
			{"?follow=0&last_event_id=" + had[1].id, "", []string{"member", "snapshot", ""}},
		} {
			r := s.get("/v1/events"+c.query, slices.DeleteFunc([]string{c.header},
				func(h string) bool { return h == "" })...)
			r.want(c.want...)
			if !strings.Contains(c.query, "follow") {
				r.want("comment") // there is no earlier event
			}
			r.conn.Close()
		}
		for n := range uint64(adminapi.EventHistory) {
			s.node.joins(4 + n)
		}
		r = s.get("/v1/events?last_event_id=" + had[0].id)
		r.want("snapshot") // too old
		r.conn.Close()
		r = s.get("/v1/events?last_event_id=" + run + "-3")
		r.want("member") // the oldest event in the ring
		r.conn.Close()
		s.end()
	})
}

// TestSlowReader checks that a slow reader gets the number of missed events and a snapshot, uses no
// extra memory, and delays neither the node nor other readers.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		slow, quick := s.get("/v1/events"), s.get("/v1/events")
		slow.want("snapshot")
		quick.want("snapshot")
		const many = 3 * adminapi.EventHistory
		for n := range uint64(many) {
			s.node.joins(n)
			quick.want("member")
		}
		seen := 0
		for e := slow.next(); ; e = slow.next() {
			if e.kind == "lagged" {
				var missed int
				if _, err := fmt.Sscanf(e.data, `{"missed":%d}`, &missed); err != nil || e.id != "" {
					t.Fatalf("lagged: %+v, %v", e, err)
				}
				if seen+missed != many-adminapi.EventHistory || missed < adminapi.EventHistory {
					t.Errorf("%d read and %d missed of %d, want all but the newest %d",
						seen, missed, many, adminapi.EventHistory)
				}
				break
			}
			seen++
		}
		if got := slow.want("snapshot")[0]; !strings.HasSuffix(got.id, fmt.Sprint("-", many)) {
			t.Errorf("snapshot %s after lagged, want the id of the newest change, %d", got.id, many)
		}
		s.node.joins(0)
		slow.want("member")
		slow.conn.Close()
		quick.conn.Close()
		s.end()
	})
}

// TestLaggedNode checks that readers get EventLagged if the process itself missed events of the
// node.
func TestLaggedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		r := s.get("/v1/events")
		r.want("snapshot")
		s.node.events <- cluster.Lagged{Missed: 7}
		s.node.events <- cluster.Snapshot{}
		if e := r.want("lagged", "snapshot")[0]; e.data != `{"missed":7}` {
			t.Errorf("lagged: %s, want 7", e.data)
		}
		s.node.joins(1)
		r.want("member")
		r.conn.Close()
		r = s.get("/v1/events?follow=false")
		r.want("lagged", "member", "snapshot", "")
		r.conn.Close()
		s.end()
	})
}

// TestQuietStream checks that request timeouts do not end an idle stream, and that comments keep it
// alive.
func TestQuietStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		r := s.get("/v1/events")
		r.want("snapshot")
		began := time.Now()
		for n := range 20 {
			r.want("comment")
			if got, want := time.Since(began), time.Duration(n+1)*15*time.Second; got != want {
				t.Fatalf("comment %d after %v, want %v", n+1, got, want)
			}
		}
		s.node.joins(1)
		r.want("member")
		r.conn.Close()
		s.end()
	})
}

// TestStuckReader checks that a stream is closed if its reader stops reading.
func TestStuckReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		r := s.get("/v1/events") // reads only the header
		time.Sleep(time.Minute)
		if _, err := io.ReadAll(r.in); err != nil {
			t.Errorf("after a minute: %v, want the connection closed", err)
		}
		r.conn.Close()
		s.end()
	})
}

// TestManyStreams opens thousands of streams. Only MaxEventStreams are served, and the others get
// an error or are closed. The node must still respond to other requests.
func TestManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		var open []*reader
		for range adminapi.MaxEventStreams {
			r := s.get("/v1/events")
			r.want("snapshot")
			open = append(open, r)
		}
		for range 3000 {
			r := s.get("/v1/events")
			body, _ := io.ReadAll(r.body)
			if r.resp.StatusCode != 503 || !strings.Contains(string(body), `"code":"busy"`) {
				t.Fatalf("one stream too many: %d %s, want 503 busy", r.resp.StatusCode, body)
			}
			r.conn.Close()
			synctest.Wait() // wait until the server has noticed the close
		}
		s.node.joins(1)
		for _, r := range open {
			r.want("member")
		}
		if r := s.get("/v1/status"); r.resp.StatusCode != 200 {
			t.Errorf("GET /v1/status beside %d streams: %d", len(open), r.resp.StatusCode)
		} else {
			r.conn.Close()
		}
		open[0].conn.Close()
		synctest.Wait()
		r := s.get("/v1/events")
		r.want("snapshot") // replaces the closed stream
		for _, r := range append(open, r) {
			r.conn.Close()
		}
		s.end()
	})
}

// TestManyConnections checks that a host that opens many connections uses at most MaxConnections
// files, and that idle connections are closed.
func TestManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		var idle []net.Conn
		hungUp := 0
		for range 2000 {
			here, there := net.Pipe()
			s.l.dialed <- there
			idle = append(idle, here)
		}
		synctest.Wait()
		for _, c := range idle {
			c.SetReadDeadline(time.Now())
			if _, err := c.Read(make([]byte, 1)); err == io.EOF {
				hungUp++
			}
		}
		if want := 2000 - adminapi.MaxConnections; hungUp != want {
			t.Errorf("%d of 2000 connections were closed, want %d", hungUp, want)
		}
		time.Sleep(6 * time.Second)
		r := s.get("/v1/status")
		if r.resp.StatusCode != 200 {
			t.Errorf("GET /v1/status after the idle ones were closed: %d", r.resp.StatusCode)
		}
		for _, c := range append(idle, r.conn) {
			c.Close()
		}
		s.end()
	})
}

// TestStreamOfAnotherSite checks that a stream request of another site is refused: the page could
// not read it, but would use up a stream.
func TestStreamOfAnotherSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		for header, want := range map[string]int{
			"Sec-Fetch-Site: cross-site":    403,
			"Sec-Fetch-Site: same-site":     403,
			"Origin: http://evil.example":   403,
			"Sec-Fetch-Site: same-origin":   200,
			"Origin: http://localhost":      200,
			"User-Agent: of no browser/1.0": 200,
		} {
			r := s.get("/v1/events?follow=false", header)
			if r.resp.StatusCode != want {
				t.Errorf("%s: %d, want %d", header, r.resp.StatusCode, want)
			}
			r.conn.Close()
		}
		s.end()
	})
}
