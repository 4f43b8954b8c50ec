// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// withStreams is inWorld with two nodes that handle "echo" and "do" streams. The metadata of a "do"
// stream selects what its handler does; only one of these handlers runs at a time. The mailbox
// collects how handlers ended.
func withStreams(t *testing.T, test func(*testing.T, *world, *mailbox)) {
	t.Helper()
	var box mailbox
	withReceivers(t, 2, func(_ *testing.T, i int, mux *receiver.Mux) {
		receiver.HandleStream(mux, "echo", func(
			_ context.Context, _ member.Member, s receiver.Stream,
		) error {
			_, err := io.Copy(s, s)
			return err
		})
		receiver.HandleStream(mux, "do", func(
			ctx context.Context, from member.Member, s receiver.Stream,
		) error {
			switch receiver.Metadata(ctx)["what"] {
			case "fail":
				return errBoom
			case "panic":
				panic("boom")
			case "write and return":
				_, err := fmt.Fprintf(s, "%s has it", from.Name)
				return err
			}
			_, err := io.ReadAll(s)
			box.add("n%d %s: %v, %v", i, from.Name, err, context.Cause(ctx))
			return err
		}, receiver.Concurrency(1))
	}, func(t *testing.T, w *world) { test(t, w, &box) })
}

// what returns metadata for the handler of "do".
func what(do string) SendOption { return WithMetadata(map[string]string{"what": do}) }

// mustOpen opens a stream from node 0.
func (w *world) mustOpen(to int, name string, opts ...SendOption) receiver.Stream {
	w.t.Helper()
	s, err := w.nodes[0].OpenStream(w.t.Context(), address(to), name, opts...)
	if err != nil {
		w.t.Fatalf("OpenStream to node %d: %v", to, err)
	}
	return s
}

// TestStreamEchoes checks that another member and the node itself echo a MiB over a stream, and
// that both directions then end normally.
func TestStreamEchoes(t *testing.T) {
	withStreams(t, func(t *testing.T, w *world, _ *mailbox) {
		sent := make([]byte, 1<<20)
		for i := range sent {
			sent[i] = byte(i >> 8 * i)
		}
		for to := range 2 {
			s := w.mustOpen(to, "echo")
			written := make(chan error)
			go func() {
				_, err := s.Write(sent)
				written <- errors.Join(err, s.CloseWrite())
			}()
			got, err := io.ReadAll(s)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("to node %d: got %d bytes and %v, want those sent", to, len(got), err)
			}
			if err := <-written; err != nil {
				t.Errorf("to node %d: Write and CloseWrite: %v", to, err)
			}
			if _, err := s.Write([]byte("x")); !errors.Is(err, ErrStreamClosed) {
				t.Errorf("to node %d: Write after CloseWrite: got %v, want ErrStreamClosed", to, err)
			}
			s.Close()
			s.Close()
			if _, err := s.Read(make([]byte, 1)); !errors.Is(err, ErrStreamClosed) ||
				!errors.Is(err, transport.ErrStreamClosed) {
				t.Errorf("to node %d: Read after Close: got %v, want ErrStreamClosed", to, err)
			}
		}
	})
}

// TestStreamEndsAsItsHandlerDoes checks that a stream ends normally if its handler returns nil,
// even while the other side writes. Otherwise the stream must be reset.
func TestStreamEndsAsItsHandlerDoes(t *testing.T) {
	withStreams(t, func(t *testing.T, w *world, _ *mailbox) {
		for to := range 2 {
			for _, c := range []struct {
				do   string
				text string
				want error
			}{
				{"write and return", "n0 has it", nil},
				{"fail", "", ErrStreamReset},
				{"panic", "", ErrStreamReset},
			} {
				s := w.mustOpen(to, "do", what(c.do))
				got, err := io.ReadAll(s)
				if string(got) != c.text || !errors.Is(err, c.want) {
					t.Errorf("%s to node %d: got %q and %v, want %q and %v", c.do, to, got, err, c.text, c.want)
				}
				synctest.Wait()
				if _, err = s.Write([]byte("x")); !errors.Is(err, ErrStreamReset) {
					t.Errorf("%s to node %d: Write: got %v, want ErrStreamReset", c.do, to, err)
				}
				s.Close()
			}
			for _, r := range w.nodes[to].Status().Receivers {
				if r.Event == "do" && (r.Handled != 3 || r.Failed != 1 || r.Panicked != 1 || r.Running != 0) {
					t.Errorf("node %d counted %+v, want 3 handled, 1 failed, 1 panicked", to, r)
				}
			}
		}
	})
}

// TestStreamIsRefused checks that a member without a handler or with too many streams refuses a
// stream. The first Read or Write must return the error. If the member is the node itself,
// OpenStream must return the error.
func TestStreamIsRefused(t *testing.T) {
	read := func(s receiver.Stream) error {
		_, err := s.Read(make([]byte, 10))
		return err
	}
	write := func(s receiver.Stream) error {
		synctest.Wait()
		_, err := s.Write([]byte("x"))
		return err
	}
	withStreams(t, func(t *testing.T, w *world, _ *mailbox) {
		first := w.mustOpen(1, "do")
		own := w.mustOpen(0, "do")
		synctest.Wait()
		for _, c := range []struct {
			name string
			want error
		}{{"nobody", ErrUnknownType}, {"do", ErrBusy}} {
			for _, begin := range []func(receiver.Stream) error{read, write} {
				s := w.mustOpen(1, c.name)
				for range 2 {
					if err := begin(s); !errors.Is(err, c.want) || errors.Is(err, ErrStreamReset) {
						t.Errorf("stream %q: got %v, want %v", c.name, err, c.want)
					}
				}
				s.Close()
			}
			if _, err := w.nodes[0].OpenStream(t.Context(), address(0), c.name); !errors.Is(err, c.want) {
				t.Errorf("stream %q to itself: got %v, want %v", c.name, err, c.want)
			}
		}
		dropped := w.nodes[1].Status().Dropped
		if dropped[messaging.DropNoHandler] != 2 || dropped[messaging.DropTooMany] != 2 {
			t.Errorf("dropped: got %v, want 2 each", dropped)
		}
		first.Close()
		own.Close()
		synctest.Wait()
		s := w.mustOpen(1, "do", what("write and return"))
		if got, err := io.ReadAll(s); err != nil {
			t.Errorf("after the first has ended: got %q and %v", got, err)
		}
		s.Close()
	})
}

// TestOpenStreamIsRefused checks that OpenStream fails before it sends anything if no stream can be
// opened.
func TestOpenStreamIsRefused(t *testing.T) {
	withStreams(t, func(t *testing.T, w *world, _ *mailbox) {
		long := map[string]string{}
		for i := range 5 {
			long[fmt.Sprint(i)] = strings.Repeat("x", messaging.MaxMetadataValue)
		}
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errBoom)
		for _, c := range []struct {
			name string
			ctx  context.Context
			to   int
			of   string
			opt  SendOption
			want error
		}{
			{"stranger", t.Context(), 9, "echo", nil, ErrNotActive},
			{"no name", t.Context(), 1, "", nil, ErrUnknownType},
			{"forged name", t.Context(), 1, "a\nb", nil, ErrUnknownType},
			{"much metadata", t.Context(), 1, "echo", WithMetadata(long), ErrTooLarge},
			{"long metadata", t.Context(), 1, "echo",
				what(strings.Repeat("x", messaging.MaxMetadataValue+1)), ErrTooLarge},
			{"BestEffort", t.Context(), 1, "echo", BestEffort(), textError("only the option WithMetadata")},
			{"WithSelf", t.Context(), 1, "echo", WithSelf(), textError("only the option WithMetadata")},
			{"WithOutcome", t.Context(), 1, "echo", WithOutcome(func(member.Address, error) {}),
				textError("only the option WithMetadata")},
			{"ended context", ended, 1, "echo", nil, errBoom},
		} {
			opts := []SendOption{func(*sendOptions) {}}
			if c.opt != nil {
				opts[0] = c.opt
			}
			_, err := w.nodes[0].OpenStream(c.ctx, address(c.to), c.of, opts...)
			if !matchesError(err, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, err, c.want)
			}
		}
		for range MaxStreams {
			w.mustOpen(1, "echo")
		}
		_, err := w.nodes[0].OpenStream(t.Context(), address(1), "echo")
		if !errors.Is(err, ErrBusy) || !errors.Is(err, transport.ErrTooManyStreams) {
			t.Errorf("stream %d: got %v, want ErrBusy", MaxStreams+1, err)
		}
		w.end(w.nodes[1])
		_, err = w.nodes[0].OpenStream(w.within(time.Second/10), address(1), "echo")
		if !errors.Is(err, ErrNotDelivered) {
			t.Errorf("to a node that is gone: got %v, want ErrNotDelivered", err)
		}
		w.end(w.nodes[0])
		if _, err = w.nodes[0].OpenStream(t.Context(), address(0), "echo"); !errors.Is(err, ErrClosed) {
			t.Errorf("on a closed node: got %v, want ErrClosed", err)
		}
	})
}

// TestStreamEndsWithItsNodes checks that a stream ends with the node that opened it, with the node
// that handles it, and with the connection. Both sides must get the right error.
func TestStreamEndsWithItsNodes(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(w *world)
		opener error
		box    string // how the handler of node 1 ended
	}{
		{"opener closes", func(w *world) { w.end(w.nodes[0]) }, ErrClosed, ErrStreamReset.Error()},
		{"handler's node closes", func(w *world) { w.end(w.nodes[1]) },
			ErrStreamReset, ErrClosed.Error()},
		{"connection is lost", func(w *world) { w.net.Kill(address(1)) }, ErrStreamCut, "cluster: "},
	} {
		withStreams(t, func(t *testing.T, w *world, box *mailbox) {
			s, own := w.mustOpen(1, "do"), w.mustOpen(0, "do")
			synctest.Wait()
			read := make(chan error, 1)
			go func() {
				_, err := io.ReadAll(s)
				read <- err
			}()
			synctest.Wait()
			c.end(w)
			if err := <-read; !errors.Is(err, c.opener) {
				t.Errorf("%s: Read: got %v, want %v", c.name, err, c.opener)
			}
			if _, err := s.Write([]byte("x")); !errors.Is(err, c.opener) {
				t.Errorf("%s: Write: got %v, want %v", c.name, err, c.opener)
			}
			synctest.Wait()
			lines := box.sorted()
			if i := len(lines) - 1; i < 0 || !strings.HasPrefix(lines[i], "n1 n0: "+c.box) {
				t.Errorf("%s: handlers ended with %q, want the last with %q", c.name, lines, c.box)
			}
			s.Close()
			own.Close()
			if c.opener == ErrStreamCut {
				w.nodes[1].Close() // its socket failed
				w.nodes = w.nodes[:1]
			}
		})
	}
}

// TestStreamFailureIsLogged checks that the failure of a stream handler is logged with the name of
// the stream.
func TestStreamFailureIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.close()
		w.receivers = func(int) *receiver.Mux {
			mux := receiver.NewMux()
			receiver.HandleStream(mux, "file", func(
				context.Context, member.Member, receiver.Stream,
			) error {
				return errBoom
			})
			return mux
		}
		j := logging(w, zerolog.WarnLevel)
		s, err := w.nodes[1].OpenStream(t.Context(), address(0), "file")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		lines, _ := j.about("handler failed")
		if len(lines) != 1 || !strings.Contains(lines[0], `"stream":"file"`) {
			t.Errorf("logged %q, want one line of the stream file", lines)
		}
	})
}

// TestStreamHandlerThatGoesOn checks that a stream handler that does not return does not block
// Close, and that Close names it.
func TestStreamHandlerThatGoesOn(t *testing.T) {
	release := make(chan struct{})
	withReceivers(t, 2, func(t *testing.T, _ int, mux *receiver.Mux) {
		receiver.HandleStream(mux, "stubborn", func(
			context.Context, member.Member, receiver.Stream,
		) error {
			<-release
			return nil
		})
	}, func(t *testing.T, w *world) {
		release = make(chan struct{}) // of the bubble
		s := w.mustOpen(1, "stubborn")
		defer s.Close()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- w.nodes[1].Close() }()
		select {
		case err := <-closed:
			if err == nil || !strings.Contains(err.Error(), "stream stubborn") {
				t.Errorf("got %v, want an error that names the stream", err)
			}
		case <-time.After(time.Minute):
			t.Error("Close waits for a stream handler that does not return")
		}
		close(release)
		w.nodes = w.nodes[:1]
	})
}
