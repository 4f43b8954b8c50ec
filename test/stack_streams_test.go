// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// inEchoStack runs a test with a cluster of three nodes that echo streams and handle events.
func inEchoStack(t *testing.T, seeds int, test func(*testing.T, *stack, *arrivals)) {
	t.Helper()
	inStack(t, 3, func(t *testing.T, s *stack) {
		s.seeds = seeds
		a := s.receive(atOnce)
		change := s.change
		s.change = func(i int, c *cluster.Config) {
			change(i, c)
			receiver.HandleStream(c.Receiver, "echo", func(
				_ context.Context, _ member.Member, s receiver.Stream,
			) error {
				_, err := io.Copy(s, s)
				return err
			})
		}
		s.form()
		test(t, s, a)
	})
}

func (s *stack) openStream(from, to int, name string) receiver.Stream {
	s.t.Helper()
	stream, err := s.Node(from).OpenStream(s.t.Context(), s.Address(to), name)
	if err != nil {
		s.t.Fatalf("OpenStream from node %d to %d: %v", from, to, err)
	}
	return stream
}

// Even with packet loss, streams of a few MiB between all members disturb no node, and each is
// echoed completely (section 9).
func TestStackStreamsUnderLoss(t *testing.T) {
	t.Parallel()
	inEchoStack(t, 3, func(t *testing.T, s *stack, _ *arrivals) {
		s.eachPath(athenatest.Path{Loss: 0.01})
		c := s.calm(0, 1, 2)
		sent := bytes.Repeat([]byte("one MiB and more"), 80_000)
		var streams sync.WaitGroup
		for from := range s.size {
			for to := range s.size {
				stream := s.openStream(from, to, "echo")
				streams.Go(func() {
					_, err := stream.Write(sent)
					if err = errors.Join(err, stream.CloseWrite()); err != nil {
						t.Errorf("from node %d to %d: Write: %v", from, to, err)
					}
				})
				streams.Go(func() {
					defer stream.Close()
					if got, err := io.ReadAll(stream); err != nil || !bytes.Equal(got, sent) {
						t.Errorf("from node %d to %d: got %d bytes and %v, want %d",
							from, to, len(got), err, len(sent))
					}
				})
			}
		}
		done := make(chan struct{})
		go func() { streams.Wait(); close(done) }()
		for begin := time.Now(); ; {
			select {
			case <-done:
				t.Logf("all were echoed after %v", time.Since(begin))
				return
			default:
				c.rest(restStep)
			}
		}
	})
}

// If a stream has no handler, its opener learns the reason from Read or Write, even over a real
// connection. If the host of the handler disappears, the stream is cut; if its node closes, the
// stream is abandoned.
func TestStackStreamsEnd(t *testing.T) {
	t.Parallel()
	inEchoStack(t, 3, func(t *testing.T, s *stack, _ *arrivals) {
		s.eachPath(athenatest.Path{Loss: 0.05})
		from := s.leader()
		gone, closed := others(from)[0], others(from)[1]
		write := func(stream receiver.Stream) (err error) {
			for err == nil {
				_, err = stream.Write(make([]byte, 1<<16))
			}
			return err
		}
		read := func(stream receiver.Stream) error {
			_, err := io.ReadAll(stream)
			return err
		}
		for range 5 {
			for _, begin := range []func(receiver.Stream) error{write, read} {
				stream := s.openStream(from, gone, "nobody")
				if err := begin(stream); !errors.Is(err, cluster.ErrUnknownType) {
					t.Errorf("got %v, want ErrUnknownType", err)
				}
				stream.Close()
			}
		}
		s.eachPath(athenatest.Path{})
		s.Advance(time.Second)
		for _, end := range []struct {
			to   int
			how  func()
			want error
		}{
			{closed, func() { _ = s.Node(closed).Close() }, cluster.ErrStreamReset},
			{gone, func() { s.Crash(gone) }, cluster.ErrStreamCut},
		} {
			stream := s.openStream(from, end.to, "echo")
			if _, err := stream.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			end.how()
			if err := read(stream); !errors.Is(err, end.want) {
				t.Errorf("got %v, want %v", err, end.want)
			}
			stream.Close()
		}
	})
}

// With packet loss, best-effort events arrive once or not at all.
func TestStackBestEffort(t *testing.T) {
	t.Parallel()
	inEchoStack(t, 1, func(t *testing.T, s *stack, a *arrivals) {
		if s.leader() != 0 {
			if err := s.Node(s.leader()).Transfer(t.Context(), s.Address(0)); err != nil {
				t.Fatal(err)
			}
		}
		send := func(number int, opts ...cluster.SendOption) {
			t.Helper()
			event := payload{number, bytes.Repeat([]byte("x"), 500)}
			if err := s.Node(1).Send(t.Context(), s.Address(2), event, opts...); err != nil {
				t.Errorf("event %d: %v", number, err)
			}
		}
		s.eachPath(athenatest.Path{Loss: 0.2})
		const events = 200
		for number := range events {
			send(number+1, cluster.BestEffort())
			s.Advance(time.Millisecond)
		}
		s.Advance(time.Second)
		got := a.of(1, 2)
		slices.Sort(got)
		once := slices.Compact(slices.Clone(got))
		if len(once) != len(got) || len(got) < events/2 || len(got) > events {
			t.Errorf("got %d events, %d of them different; want most of %d, each once",
				len(got), len(once), events)
		}
		t.Logf("%d of %d arrived", len(got), events)
	})
}
