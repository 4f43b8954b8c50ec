// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/transport"
)

// book records all lines that the nodes of a world log, and compares each with its row in
// docs/logs.md.
type book struct {
	t     *testing.T
	rows  map[string]bookRow
	mu    sync.Mutex
	lines map[string][]map[string]any // by text
}

type bookRow struct {
	level  string
	fields []string
}

// ofEveryLine lists the fields that any line may have.
var ofEveryLine = []string{"level", "message", "node", "left_out"}

var (
	bookLine = regexp.MustCompile("(?m)^\\| `([A-Z]{3}) ([^`]+)` \\| ([^|]+) \\|")
	bookWord = regexp.MustCompile("`([a-z_]+)`")
)

func newBook(t *testing.T) *book {
	t.Helper()
	page, err := os.ReadFile("../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	b := &book{t: t, rows: map[string]bookRow{}, lines: map[string][]map[string]any{}}
	for _, m := range bookLine.FindAllStringSubmatch(string(page), -1) {
		row := bookRow{level: m[1]}
		for _, f := range bookWord.FindAllStringSubmatch(m[3], -1) {
			row.fields = append(row.fields, f[1])
		}
		b.rows[m[2]] = row
	}
	return b
}

func (b *book) Write(p []byte) (int, error) {
	line := map[string]any{}
	if err := json.Unmarshal(p, &line); err != nil {
		b.t.Errorf("no line of JSON: %v in %q", err, p)
	}
	text, level := fmt.Sprint(line["message"]), fmt.Sprint(line["level"])
	row, known := b.rows[text]
	short := map[string]string{"debug": "DBG", "info": "INF", "warn": "WRN", "error": "ERR"}[level]
	if !known || row.level != short {
		b.t.Errorf("%s %q is not in docs/logs.md", level, text)
	}
	for field := range line {
		if !slices.Contains(row.fields, field) && !slices.Contains(ofEveryLine, field) {
			b.t.Errorf("docs/logs.md has no field %q of %s", field, p)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines[text] = append(b.lines[text], line)
	return len(p), nil
}

func (b *book) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.lines[text])
}

// wants checks how many lines with this text were written so far, and returns them.
func (b *book) wants(text string, count int) []map[string]any {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.lines[text]; len(got) != count {
		b.t.Errorf("%d lines %q, want %d: %v", len(got), text, count, got[:min(3, len(got))])
	}
	return b.lines[text]
}

// once checks that there are lines with this text, and that no two of them have the same
// node and the same values in the given fields.
func (b *book) once(text string, fields ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	told := map[string]bool{}
	for _, line := range b.lines[text] {
		fact := fmt.Sprint(line["node"])
		for _, f := range fields {
			fact += fmt.Sprint(" ", f, "=", line[f])
		}
		if told[fact] {
			b.t.Errorf("%q is logged twice about %s", text, fact)
		}
		told[fact] = true
	}
	if len(told) == 0 {
		b.t.Errorf("%q is not told", text)
	}
}

// TestMemoryStoreCausesWarning checks that a node with a store in memory logs a warning. There must
// be no warning if the configuration confirms the store in memory, or if the context has another
// store.
func TestMemoryStoreCausesWarning(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   Config
		store store.Store // of the context
		lines int
	}{
		{"nothing", Config{}, nil, 1},
		{"Memory", Config{Memory: true}, nil, 0},
		{"DataDir", Config{DataDir: t.TempDir()}, nil, 0},
		{"store of the context", Config{}, store.NewMemory([32]byte{}), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				n, err := w.startOn(c.store, 0, c.cfg)
				if err != nil {
					t.Fatal(err)
				}
				n.Close()
				w.book.wants("no data directory is set: this node forgets its votes when it stops",
					c.lines)
			})
		})
	}
}

// TestEventsAreLoggedOnce checks that each node logs these events once: the founding of a cluster,
// and a leader that is cut off, hands over, or leaves.
func TestEventsAreLoggedOnce(t *testing.T) {
	for _, size := range []int{3, 7} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, size)
			w.form()
			time.Sleep(time.Second)
			first := w.leader()
			w.cut(first)
			time.Sleep(10 * time.Second)
			w.heal(first)
			time.Sleep(10 * time.Second)
			if err := w.leader().Transfer(t.Context(), member.Address{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if err := w.leader().Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			w.close()
			for _, text := range []string{
				"started", "no data directory is set: this node forgets its votes when it stops",
				"no secret or certificate is set: " +
					"anyone who reaches the port can join and read everything",
				"leading provisionally, without authority", "no leader with authority",
				"left the cluster", "ended",
			} {
				w.book.once(text)
			}
			for _, text := range []string{
				"following a leader", "leading", "leader changed", "lost authority", "stepped down",
				"lost the leader", "the leader is leaving or handing over", "a leader was chosen",
				"proposing a leader", "proposing a leader formally",
			} {
				w.book.once(text, "version")
			}
			w.book.once("following a provisional leader", "leader")
			w.book.once("member changed", "version", "peer", "status")
			w.book.once("voted", "version", "peer", "stage")
			w.book.once("counted a vote", "version", "peer", "stage")
			w.book.wants("leading with authority", 0)           // not needed after a change of leader
			w.book.wants("there is a leader with authority", 0) // likewise
		})
	}
}

// TestFailureIsLoggedOnce checks that a failure that stops a node is logged once, with its cause,
// in the line that reports the end of the node.
func TestFailureIsLoggedOnce(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		n := w.nodes[0]
		w.net.Kill(n.cfg.self)
		<-n.Done()
		w.book.wants("ended", 0)
		lines := w.book.wants("node failed", 1)
		if len(lines) == 1 && !strings.Contains(fmt.Sprint(lines[0]["error"]), "the socket failed") {
			t.Errorf("got %v, want that the socket failed", lines[0])
		}
	})
}

// TestUnencodableMessageIsLogged checks that a message that cannot be encoded counts as lost
// and is logged.
func TestUnencodableMessageIsLogged(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		odd := message.Greet{Name: "\n"}
		err := w.nodes[0].runInLoop(t.Context(), func(time.Time) (statemachine.Output, error) {
			return statemachine.Output{Send: []message.Message{{To: address(1), Body: odd}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		lines := w.book.wants("cannot encode a message", 1)
		if len(lines) == 1 && lines[0]["kind"] != "Greet" {
			t.Errorf("got %v, want the kind", lines[0])
		}
	})
}

// TestHandlerFailuresAreLoggedOnce checks that a failure of a handler is logged once, as a warning
// if the sender does not get it or the handler panicked.
func TestHandlerFailuresAreLoggedOnce(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, _ *desk) {
		for _, from := range w.nodes[1:] {
			for _, text := range []string{"fail", "panic"} {
				_, _ = Request[total](t.Context(), from, address(0), sum{Text: text})
			}
			if err := from.Send(t.Context(), address(0), note{Text: "fail"}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		w.book.wants("handler failed; the sender was notified", 2)
		stacks := 0
		for _, line := range w.book.wants("handler failed", 4) {
			if _, panicked := line["stack"]; panicked {
				stacks++
			}
		}
		if stacks != 2 {
			t.Errorf("%d lines have a stack, want 2", stacks)
		}
	})
}

// TestMalformedEventsCauseOneWarning checks that an event of an unexpected type causes one
// warning, and no line for a dropped frame.
func TestMalformedEventsCauseOneWarning(t *testing.T) {
	withDesk(t, func(t *testing.T, w *world, _ *desk) {
		for range 3 {
			odd := receiver.Raw{Name: "note", Payload: []byte{0xc3}}
			if err := w.nodes[1].Send(t.Context(), address(0), odd); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		lines := w.book.wants("dropped an event that does not decode into its type here; "+
			"further ones of this name from this peer are only counted", 1)
		if len(lines) == 1 && lines[0]["sender_told"] != false {
			t.Errorf("got %v, want that the sender is not told", lines[0])
		}
		w.book.wants("dropped a frame", 2)
	})
}

// TestNoPeerFillsTheLog checks that no peer can fill the log: the number of lines with one text is
// limited per minute, and the next line reports how many were left out.
func TestNoPeerFillsTheLog(t *testing.T) {
	const often = 3 * diagnosis.MaxLines
	withDesk(t, func(t *testing.T, w *world, _ *desk) {
		n := w.nodes[0]
		in, peer := inbound{n.messages, n}, w.nodes[1].Self().Identity
		frame := func(body message.Body) []byte {
			encoded, err := wire.Encode(message.Message{From: peer, To: address(0), Body: body})
			if err != nil {
				t.Fatal(err)
			}
			return encoded
		}
		failing, err := wire.EncodeEvent(wire.Event{
			Name: "note", Payload: []byte("\x81\xa4Text\xa4fail"), // as MessagePack
		}, MaxEventBytes)
		if err != nil {
			t.Fatal(err)
		}
		later := frame(message.SeedKeepAliveAck{})
		later[1]++ // the version
		flood := func(times int) {
			for range times {
				_ = in.System(peer, frame(message.JoinClusterResponse{}))
				_ = in.System(peer, frame(message.SeedKeepAlive{}))
				_ = in.System(peer, later)
				_ = in.Custom(transport.Custom, peer, failing)
				n.handleReport(mesh.Report{Kind: mesh.ReportConnected, Peer: peer.Address})
				synctest.Wait()
			}
		}
		time.Sleep(2 * diagnosis.QuotaInterval)
		texts := []string{
			"dropped a message", "refused", "dropped a frame", "handler failed", "connected",
		}
		before := map[string]int{}
		for _, text := range texts {
			before[text] = w.book.count(text)
		}
		flood(often)
		for _, text := range texts {
			w.book.wants(text, before[text]+diagnosis.MaxLines)
		}
		time.Sleep(diagnosis.QuotaInterval)
		flood(1)
		for _, text := range texts {
			lines := w.book.wants(text, before[text]+diagnosis.MaxLines+1)
			if got := lines[len(lines)-1]["left_out"]; got != float64(often-diagnosis.MaxLines) {
				t.Errorf("%q: %v were left out, want %d", text, got, often-diagnosis.MaxLines)
			}
		}
	})
}

// TestSlowHandlerIsLogged checks that a node logs a handler that does not return, with its sender
// and the events that wait, and shows it in Status until it returns.
func TestSlowHandlerIsLogged(t *testing.T) {
	release := sync.OnceValue(func() chan struct{} { return make(chan struct{}) }) // in the bubble
	withReceivers(t, 2, func(_ *testing.T, _ int, mux *receiver.Mux) {
		receiver.Handle(mux, func(context.Context, member.Member, note) error { <-release(); return nil })
	}, func(t *testing.T, w *world) {
		const text = "handler still running"
		for range 3 {
			if err := w.nodes[1].Send(t.Context(), address(0), note{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		slowest := func() (slowest receiver.SlowHandler) {
			for _, r := range w.nodes[0].Status().Receivers {
				if r.Event == "note" {
					slowest = r.Slowest
				}
			}
			return slowest
		}
		got := slowest()
		if got.From != address(1) || got.Waiting != 2 || got.Running < 28*time.Second {
			t.Errorf("Status has %+v, want the handler for %v, 2 wait", got, address(1))
		}
		for _, line := range w.book.wants(text, 1) {
			ms, _ := line["running_ms"].(float64)
			if line["event"] != "note" || line["peer"] != address(1).String() || line["waiting"] != 2.0 ||
				ms < 5000 || ms > 7000 {
				t.Errorf("got %v, want note of %v after 5 s, 2 wait", line, address(1))
			}
		}
		close(release())
		time.Sleep(2 * time.Minute)
		if got := slowest(); got.Running != 0 {
			t.Errorf("after the handler has returned, Status has %+v", got)
		}
		w.book.wants(text, 1)
	})
}

// TestLateWorkIsLogged checks that a node logs work once if it has not returned 5 s after the lease
// of its record has ended. It logs nothing about work that returns earlier.
func TestLateWorkIsLogged(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		const text = "work still running"
		s := session(w.followers()[0])
		for _, c := range []struct {
			key   string
			takes time.Duration
			lines int
		}{{"quick", 4 * time.Second, 0}, {"late", time.Minute, 1}} {
			h := acquire(t, s, c.key)
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				_ = h.Do(t.Context(), func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(c.takes)
					return nil
				})
			}()
			synctest.Wait()
			if _, err := s.Commit(t.Context(), dropped(c.key)); err != nil {
				t.Fatal(err)
			}
			<-returned
			time.Sleep(time.Minute)
			for _, line := range w.book.wants(text, c.lines) {
				if ms, _ := line["ended_ms"].(float64); line["record"] != c.key || ms < 5000 || ms > 7000 {
					t.Errorf("got %v, want the record %s after 5 s", line, c.key)
				}
			}
		}
	})
}
