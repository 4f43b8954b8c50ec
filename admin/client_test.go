// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

const (
	// These constants limit the memory that decoding a response may allocate. The worst case is a list
	// of empty objects.
	answerFactor = 256
	answerBytes  = 1 << 20
	// mostRead is the number of bytes after which a client stops reading a response.
	mostRead = 1 << 20
	// mostTold is the maximum length of an error text.
	mostTold = 4 << 10
)

// answering is a server that writes fixed bytes to each connection and closes it.
type answering struct {
	client  *adminclient.Client
	addr    string
	answers chan []byte // buffered for the next response
}

func newAnswering(t testing.TB) *answering {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	a := &answering{addr: "unix:" + path, answers: make(chan []byte, 1)}
	if a.client, err = adminclient.New(a.addr); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			select {
			case answer := <-a.answers:
				_, _ = conn.Write(answer) // the client may stop reading early
			default: // each response is for one request
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return a
}

// ask makes the client send one request, and responds with the given answer.
func (a *answering) ask(question uint8, answer []byte) (err error) {
	ctx := context.Background()
	a.answers <- answer
	switch question % 6 {
	case 0:
		_, err = a.client.Status(ctx)
	case 1:
		_, err = a.client.Members(ctx)
	case 2:
		_, err = a.client.Leader(ctx)
	case 3:
		for _, err = range a.client.Events(ctx, "") {
		}
	case 4:
		err = a.client.Lock(ctx, "a", adminapi.LockRequest{Latch: "b"}, func(adminapi.Waiting) {},
			func(ctx context.Context, _ adminapi.RecordToken) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
	default:
		_, err = a.client.Jobs(ctx)
	}
	return err
}

// check makes a request and checks the guarantees that hold for any response.
func (a *answering) check(t *testing.T, question uint8, answer []byte) error {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := a.ask(question, answer)
	runtime.ReadMemStats(&after)
	most := uint64(answerFactor*min(len(answer), mostRead) + answerBytes)
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Fatalf("%d bytes allocated for a response of %d, want at most %d", got, len(answer), most)
	}
	var told *adminclient.Error
	switch {
	case err == nil:
	case errors.As(err, &told):
		text := told.Error()
		if text == "" || len(text) > mostTold || !member.IsPrintable(text) {
			t.Fatalf("response %.300q: text %q, want it printable and short", answer, text)
		}
	case !strings.Contains(err.Error(), a.addr):
		t.Fatalf("response %.300q: %v, want an error that names %s", answer, err, a.addr)
	}
	return err
}

// whole returns a valid HTTP response.
func whole(status int, header, body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d x\r\n%sContent-Length: %d\r\n\r\n%s",
		status, header, len(body), body)
}

// FuzzClient feeds arbitrary responses to a client. It checks that the memory used is proportional
// to the bytes received, and that errors name the address or come from the response.
func FuzzClient(f *testing.F) {
	status := adminapi.StatusOf(leading(f).Status(), "v0.1")
	leader, _ := status.LeaderOf()
	for question, value := range []any{status, status.View.Members, leader} {
		body, err := json.Marshal(value)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(question), whole(200, "", string(body)))
		f.Add(uint8(question), whole(200, "", string(body[:len(body)/2])))
	}
	f.Add(uint8(3), whole(200, "Content-Type: text/event-stream\r\n", "retry: 1\n\n"+
		"id: a-1\nevent: leader\ndata: {\"version\": 3}\n\n:\n\nevent: snapshot\ndata: {}\n\n"))
	f.Add(uint8(4), whole(200, "Content-Type: text/event-stream\r\n", "event: waiting\n"+
		"data: {\"holder\": {\"name\": \"n1\"}}\n\nevent: held\ndata: {\"trusted_ms\": 1e300}\n\n"+
		"event: alive\ndata: {\"trusted_ms\": -1}\n\nevent: lost\ndata: {\"error\": \"a\\nb\"}\n\n"))
	f.Add(uint8(5), whole(200, "", `[{"name": "a", "leader": null, "latches": [{}]}]`))
	for _, answer := range [][]byte{
		nil,
		[]byte("SSH-2.0-x\r\n"),
		whole(503, "", `{"error": "nobody leads", "code": "no_quorum"}`),
		whole(500, "", `{"error": "a\u001b[2Jb\nc", "code": "x"}`),
		whole(404, "Content-Type: text/html\r\n", "<p>"),
		whole(302, "Location: http://localhost/v1/status\r\n", ""),
		whole(200, "Content-Encoding: gzip\r\n", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"),
		whole(200, "", "["+strings.Repeat("{},", 1000)+"{}]"),
		whole(200, "", strings.Repeat("[", 1000)),
		whole(200, "", `{"view": {"members": [{"address": "a:70000", "status": "?"}]}}`),
		[]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nffffffffffffffff\r\n"),
		[]byte("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}"),
		[]byte("HTTP/1.1 100 Continue\r\n\r\n" +
			"HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
	} {
		for question := range uint8(6) {
			f.Add(question, answer)
		}
	}
	a := newAnswering(f)
	f.Fuzz(func(t *testing.T, question uint8, answer []byte) { _ = a.check(t, question, answer) })
}

// TestClientOfOtherServers tests responses that are too long for the fuzz target, and responses
// that no node sends.
func TestClientOfOtherServers(t *testing.T) {
	a := newAnswering(t)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte("[" + strings.Repeat("{},", 1<<18) + "{}]"))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		answer []byte
		want   string
	}{
		{"endless list", whole(200, "", "["+strings.Repeat("{},", 8<<20/3)+"{}]"),
			"it responded 200 OK"},
		{"packed", whole(200, "Content-Encoding: gzip\r\n", packed.String()),
			"it responded 200 OK"},
		{"endless header", whole(200, strings.Repeat("A: b\r\n", 1<<17), "{}"),
			"no response from " + a.addr},
		{"long error", whole(500, "", `{"error": "`+strings.Repeat("x", 1<<19)+`"}`), "xxx"},
		{"error for a terminal", whole(500, "", `{"error": "a\u001b[2Jb\nc"}`), `a\x1b[2Jb; c`},
		{"sent elsewhere", whole(302, "Location: http://10.9.8.7/\r\n", ""), "it responded 302 Found"},
		{"hung up", nil, "admin: no response from " + a.addr + ": EOF"},
		{"broke", []byte("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}"),
			"admin: lost the connection to " + a.addr + ": unexpected EOF"},
	} {
		if err := a.check(t, 1, c.answer); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.300v, want %q", c.name, err, c.want)
		}
	}
}
