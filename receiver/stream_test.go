// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

// fakeStream blocks in Read until it is closed, and records its calls.
type fakeStream struct {
	once   sync.Once
	closed chan struct{}
	mu     sync.Mutex
	calls  []string
}

func newFakeStream() *fakeStream { return &fakeStream{closed: make(chan struct{})} }

func (s *fakeStream) note(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

func (s *fakeStream) Read([]byte) (int, error) {
	<-s.closed
	return 0, io.ErrClosedPipe
}

func (s *fakeStream) Write(b []byte) (int, error) { return len(b), nil }

func (s *fakeStream) CloseWrite() error {
	s.note("CloseWrite")
	return nil
}

func (s *fakeStream) Close() error {
	s.once.Do(func() {
		s.note("Close")
		close(s.closed)
	})
	return nil
}

// opened creates a stream and handles it in its own goroutine, as a node does.
func opened(
	mux *Mux, from member.Member, name string, metadata map[string]string,
) (*fakeStream, error) {
	serve, err := mux.AcceptStream(name, false)
	if err != nil {
		return nil, err
	}
	s := newFakeStream()
	go serve(from, metadata, s, func(error) {})
	return s, nil
}

// streamStats returns the Stats entry of the streams of a name.
func streamStats(t *testing.T, mux *Mux, name string) Stats {
	t.Helper()
	for _, s := range mux.Stats() {
		if s.Stream && s.Event == name {
			return s
		}
	}
	t.Fatalf("no stats of streams named %q", name)
	return Stats{}
}

// TestStreamHandlerEnds checks every way in which a handler of streams can end.
func TestStreamHandlerEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		run    func(ctx context.Context, s Stream) error
		calls  []string
		report error // nil if nothing is reported
		stats  Stats
	}{
		{"in order", func(context.Context, Stream) error { return nil },
			[]string{"CloseWrite", "Close"}, nil, Stats{}},
		{"with an error", func(context.Context, Stream) error { return errBoom },
			[]string{"Close"}, errBoom, Stats{Failed: 1}},
		{"with a panic", func(context.Context, Stream) error { panic("boom") },
			[]string{"Close"}, &PanicError{}, Stats{Panicked: 1}},
		{"without a word", func(context.Context, Stream) error { runtime.Goexit(); return nil },
			[]string{"Close"}, errExited, Stats{Failed: 1}},
		{"by the node", func(ctx context.Context, s Stream) error {
			_, err := s.Read(nil)
			return err
		}, []string{"Close"}, nil, Stats{Failed: 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			mux := NewMux()
			var from member.Member
			var metadata map[string]string
			HandleStream(mux, "file", func(ctx context.Context, m member.Member, s Stream) error {
				from, metadata = m, Metadata(ctx)
				return c.run(ctx, s)
			})
			var failures []Failure
			started(t, mux, Setup{Report: func(f Failure) { failures = append(failures, f) }})
			s, err := opened(mux, sender(1), "file", map[string]string{"size": "7"})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := mux.Close(t.Context()); err != nil {
				t.Errorf("%s: Close: %v", c.name, err)
			}
			if from != sender(1) || metadata["size"] != "7" {
				t.Errorf("%s: the handler saw %v and %v", c.name, from, metadata)
			}
			if !slices.Equal(s.calls, c.calls) {
				t.Errorf("%s: the stream was ended by %q, want %q", c.name, s.calls, c.calls)
			}
			want := c.stats
			want.Event, want.Stream, want.Handled = "file", true, 1
			if got := streamStats(t, mux, "file"); got != want {
				t.Errorf("%s: got %+v, want %+v", c.name, got, want)
			}
			_, panicked := c.report.(*PanicError)
			switch {
			case c.report == nil:
				if len(failures) > 0 {
					t.Errorf("%s: reported %v, want nothing", c.name, failures)
				}
			case len(failures) != 1 || failures[0].Event != "file" || !failures[0].Stream ||
				failures[0].From != sender(1):
				t.Errorf("%s: reported %+v, want one of file", c.name, failures)
			default:
				_, isPanic := errors.AsType[*PanicError](failures[0].Err)
				if isPanic != panicked || !panicked && !errors.Is(failures[0].Err, c.report) {
					t.Errorf("%s: reported %v, want %v", c.name, failures[0].Err, c.report)
				}
			}
		})
	}
}

// TestStreamsAreRefused checks that streams are refused without a handler, above the limit,
// after Close, and under the name of an event.
func TestStreamsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		wait := func(_ context.Context, _ member.Member, s Stream) error {
			_, err := s.Read(nil)
			return err
		}
		HandleStream(mux, "two", wait, Concurrency(2))
		HandleStream(mux, "order", wait)
		Handle(mux, ignore[other])
		Handle(mux, ignore[order])
		if _, err := opened(mux, sender(1), "two", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("before Start: got %v, want ErrClosed", err)
		}
		started(t, mux, Setup{})
		if _, err := opened(mux, sender(1), "other", nil); !errors.Is(err, ErrUnknown) {
			t.Errorf("a name of events: got %v, want ErrUnknown", err)
		}
		first, err := opened(mux, sender(1), "two", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second stream exceeds the limit
			_, err = opened(mux, sender(2), "two", nil)
		}
		if !errors.Is(err, ErrBusy) {
			t.Errorf("the third of two: got %v, want ErrBusy", err)
		}
		if got := streamStats(t, mux, "two"); got.Running != 2 || got.Rejected != 1 || got.Handled != 2 {
			t.Errorf("got %+v, want 2 handled, 2 running, 1 rejected", got)
		}
		first.Close()
		synctest.Wait()
		if _, err = opened(mux, sender(2), "two", nil); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
		for i := range streamConcurrency + 1 {
			_, err = opened(mux, sender(1), "order", nil)
			if want := i == streamConcurrency; want != errors.Is(err, ErrBusy) {
				t.Fatalf("stream %d: got %v, want ErrBusy of the last alone", i, err)
			}
		}
		if err := mux.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err = opened(mux, sender(1), "two", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: got %v, want ErrClosed", err)
		}
	})
}

// TestCloseNamesOpenStreams checks that Close names the streams that are still open, and refuses
// further streams.
func TestCloseNamesOpenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		HandleStream(mux, "stuck", func(context.Context, member.Member, Stream) error {
			time.Sleep(time.Minute)
			return nil
		})
		HandleStream(mux, "idle", func(context.Context, member.Member, Stream) error { return nil })
		started(t, mux, Setup{})
		if _, err := opened(mux, sender(1), "stuck", nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := mux.Close(ctx)
		if err == nil || !strings.Contains(err.Error(), "stream stuck") ||
			strings.Contains(err.Error(), "idle") {
			t.Errorf("Close: got %v, want an error that names stream stuck alone", err)
		}
		if _, err := opened(mux, sender(1), "idle", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("while it closes: got %v, want ErrClosed", err)
		}
		time.Sleep(time.Minute)
	})
}

// TestStreamMistakesAreReported checks that one error of Validate contains every mistake.
func TestStreamMistakesAreReported(t *testing.T) {
	fine := func(context.Context, member.Member, Stream) error { return nil }
	mux := NewMux()
	HandleStream(mux, "nil", nil)
	HandleStream(mux, "", fine)
	HandleStream(mux, strings.Repeat("x", maxNameBytes+1), fine)
	HandleStream(mux, "a\nb", fine)
	HandleStream(mux, "twice", fine)
	HandleStream(mux, "twice", fine)
	HandleStream(mux, "named", fine, Named("other"))
	HandleStream(mux, "queued", fine, Queue(1, Drop))
	HandleStream(mux, "none", fine, Concurrency(0))
	err := mux.Validate(nil)
	for _, want := range []string{
		`handler of streams named "nil" is nil`, `streams named ""`, `streams named "xxx`,
		`streams named "a\nb"`, `streams named "twice" have two handlers`,
		`streams named "named": only`, `streams named "queued": only`,
		"concurrency of none: 0 handlers",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: got %v, want it to contain %q", err, want)
		}
	}
}
