// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/test/children"
	"github.com/athena-go/athena/test/results"
)

// Load is the event that nodes send.
type Load struct{ Data []byte }

// Call is the request that nodes make, and its answer.
type Call struct{ Data []byte }

// Own holds bytes and encodes itself without reflection.
type Own struct{ Data []byte }

// AppendBinary implements encoding.BinaryAppender.
func (o Own) AppendBinary(b []byte) ([]byte, error) { return append(b, o.Data...), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (o *Own) UnmarshalBinary(b []byte) error {
	o.Data = bytes.Clone(b)
	return nil
}

// OwnLoad replaces Load if Options.OwnEncoding is set.
type OwnLoad struct{ Own }

// OwnCall replaces Call if Options.OwnEncoding is set.
type OwnCall struct{ Own }

// bulkName is the name of the streams.
const bulkName = "bulk"

// The orders for load.
const (
	doSend      = "send"      // events to one member
	doBroadcast = "broadcast" // events to all others
	doRequest   = "request"   // requests to one member
	doStream    = "stream"    // bytes to one member, on one stream for each goroutine
	doAwait     = "await"     // wait until count events were handled, or no more events arrive
)

// order is an order to a node.
type order struct {
	Do      string
	To      member.Address
	Bytes   int
	Workers int
	For     time.Duration
	Count   int64
	Own     bool     // use OwnLoad and OwnCall instead of Load and Call
	Cut     []string // addresses
	Hold    string   // Job, Lock or Semaphore
}

// makeEvent returns the event to send.
func (o order) makeEvent(payload []byte) any {
	if o.Own {
		return OwnLoad{Own{payload}}
	}
	return Load{payload}
}

// answer is the result of an order, with the resources that the process has used so far.
type answer struct {
	Count  int64   // number sent, broadcast, answered or written by this order, or handled so far
	At     int64   // monotonic time when the first was sent or the last was handled
	End    int64   // monotonic time when the last was answered
	P50    float64 // median time to an answer in microseconds
	P99    float64
	CPU    int64  // nanoseconds
	Allocs uint64 // allocations
	Fault  string // empty if there was no error
}

// stallTimeout is the time without arrivals after which the missing events count as lost. It is
// long because the machine may be busy.
const stallTimeout = 2 * time.Second

// load is the part of a node that sends and handles events.
type load struct {
	handled atomic.Int64
	seen    atomic.Int64 // value of handled at the last check of watchArrivals
	last    atomic.Int64 // time of the last arrival, to a millisecond

	streams []receiver.Stream // streams of this node; used by one order at a time
}

// countHandler returns a handler that counts its calls.
func countHandler[T any](l *load) func(context.Context, member.Member, T) error {
	return func(context.Context, member.Member, T) error {
		l.handled.Add(1)
		return nil
	}
}

// watchArrivals records the time of the last arrival. It polls because reading the clock
// for each event would cost more than handling the event.
func (l *load) watchArrivals() {
	for range time.Tick(time.Millisecond) {
		if n := l.handled.Load(); n != l.seen.Load() {
			l.last.Store(children.ReadMonotonic())
			l.seen.Store(n)
		}
	}
}

func (l *load) runLoad(node *cluster.Node, o order) (a answer) {
	ctx := context.Background()
	var err error
	switch o.Do {
	case doSend:
		a.Count, a.At, err = sendForDuration(o, func(_ int, p []byte) error {
			return node.Send(ctx, o.To, o.makeEvent(p))
		})
	case doBroadcast:
		a.Count, a.At, err = sendForDuration(o, func(_ int, p []byte) error {
			return node.Broadcast(ctx, o.makeEvent(p))
		})
	case doStream:
		a.Count, a.At, err = l.writeStreams(ctx, node, o)
	case doRequest:
		err = a.makeRequests(ctx, node, o)
	case doAwait:
		a.Count, a.At = l.waitForCount(o.Count)
	default:
		err = fmt.Errorf("unknown command %q", o.Do)
	}
	if err != nil {
		a.Fault = err.Error()
	}
	if err := a.addUsage(); err != nil {
		a.Fault = err.Error()
	}
	return a
}

// absorbStream reads a stream to its end and counts the bytes as handled.
func (l *load) absorbStream(_ context.Context, _ member.Member, s receiver.Stream) error {
	buffer := make([]byte, 64<<10)
	for {
		n, err := s.Read(buffer)
		l.handled.Add(int64(n))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// writeStreams writes to streams, which stay open for the next order, and returns the
// number of bytes. Bytes that the receiver never reads count as lost.
func (l *load) writeStreams(
	ctx context.Context, node *cluster.Node, o order,
) (count, began int64, err error) {
	for len(l.streams) < o.Workers {
		s, err := node.OpenStream(ctx, o.To, bulkName)
		if err != nil {
			return 0, 0, err
		}
		l.streams = append(l.streams, s)
	}
	count, began, err = sendForDuration(o, func(worker int, p []byte) error {
		_, err := l.streams[worker].Write(p)
		return err
	})
	return count * int64(o.Bytes), began, err
}

// echoHandler answers a request with its own contents.
func echoHandler[T any](_ context.Context, _ member.Member, c T) (T, error) { return c, nil }

// callNode makes a request and returns the contents of the answer.
func callNode(ctx context.Context, node *cluster.Node, o order, payload []byte) ([]byte, error) {
	if o.Own {
		got, err := cluster.Request[OwnCall](ctx, node, o.To, OwnCall{Own{payload}})
		return got.Data, err
	}
	got, err := cluster.Request[Call](ctx, node, o.To, Call{payload})
	return got.Data, err
}

// makeRequests makes requests and measures how long each takes. Each goroutine makes one
// request at a time.
func (a *answer) makeRequests(ctx context.Context, node *cluster.Node, o order) (err error) {
	times := make([][]float64, o.Workers)
	a.Count, a.At, err = sendForDuration(o, func(worker int, p []byte) error {
		began := time.Now()
		got, err := callNode(ctx, node, o, p)
		if err != nil {
			return err
		}
		times[worker] = append(times[worker], float64(time.Since(began).Nanoseconds())/1e3)
		if len(got) != len(p) {
			return fmt.Errorf("the answer has %d bytes, want %d", len(got), len(p))
		}
		return nil
	})
	a.End = children.ReadMonotonic()
	all := slices.Concat(times...)
	if len(all) == 0 {
		return err
	}
	slices.Sort(all)
	a.P50, a.P99 = results.Quantile(all, 0.5), results.Quantile(all, 0.99)
	return err
}

// addUsage adds the resources that the process has used so far.
func (a *answer) addUsage() error {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	a.CPU, a.Allocs = used.Utime.Nano()+used.Stime.Nano(), memory.Mallocs
	return nil
}

// waitForCount waits until the given number of events were handled or no more events arrive.
func (l *load) waitForCount(count int64) (seen, last int64) {
	for since := time.Now(); time.Since(since) < stallTimeout; time.Sleep(time.Millisecond) {
		n := l.seen.Load()
		if n >= count {
			break
		}
		if n != seen {
			seen, since = n, time.Now()
		}
	}
	return l.seen.Load(), l.last.Load()
}

// sendForDuration makes goroutines send one event after another for the duration of an
// order. It returns the number of events and the time of the first one.
func sendForDuration(
	o order, send func(worker int, payload []byte) error) (count, began int64, err error,
) {
	var over atomic.Bool
	var sent atomic.Int64
	faults := make([]error, o.Workers)
	var workers sync.WaitGroup
	start := make(chan struct{})
	for w := range o.Workers {
		workers.Go(func() {
			payload := make([]byte, o.Bytes)
			_, _ = rand.NewChaCha8([32]byte{byte(w)}).Read(payload) // never fails
			var n int64
			<-start
			for ; !over.Load() && faults[w] == nil; n++ {
				faults[w] = send(w, payload)
			}
			sent.Add(n)
		})
	}
	began = children.ReadMonotonic()
	close(start)
	time.Sleep(o.For)
	over.Store(true)
	workers.Wait()
	return sent.Load(), began, errors.Join(faults...)
}
