// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// Load is the event that is sent.
type Load struct{ Data []byte }

// The things that a node can be told to do.
const (
	doSend      = "send"      // events to one member
	doBroadcast = "broadcast" // events to all others
	doAwait     = "await"     // handle so many events in all, or as many as come
)

// order is what a node shall do.
type order struct {
	Do      string
	To      member.Address
	Bytes   int
	Workers int
	For     time.Duration
	Count   int64
}

// answer is what became of an order, and what the process has used so far.
type answer struct {
	Count  int64  // events sent or broadcast by this order; handled by all
	At     int64  // when the first was sent or the last was handled, monotonic
	CPU    int64  // nanoseconds
	Allocs uint64 // allocations
	Fault  string // empty for none
}

// stalled is how long nothing arrives before what is missing is lost. It is long:
// the machine may be busy.
const stalled = 2 * time.Second

// load is the part of a node that sends and handles events.
type load struct {
	handled atomic.Int64
	seen    atomic.Int64 // of handled, as watch saw it last
	last    atomic.Int64 // when it saw that, to a millisecond
}

func (l *load) handle(context.Context, member.Member, Load) error {
	l.handled.Add(1)
	return nil
}

// watch keeps the time of the last arrival: a look at the clock for each event
// would cost more than what is measured.
func (l *load) watch() {
	for range time.Tick(time.Millisecond) {
		if n := l.handled.Load(); n != l.seen.Load() {
			l.last.Store(monotonic())
			l.seen.Store(n)
		}
	}
}

func (l *load) do(node *cluster.Node, o order) (a answer) {
	ctx := context.Background()
	var err error
	switch o.Do {
	case doSend:
		a.Count, a.At, err = pump(o, func(p []byte) error {
			return node.Send(ctx, o.To, Load{p})
		})
	case doBroadcast:
		a.Count, a.At, err = pump(o, func(p []byte) error {
			return node.Broadcast(ctx, Load{p})
		})
	case doAwait:
		a.Count, a.At = l.await(o.Count)
	default:
		err = fmt.Errorf("%q is no order", o.Do)
	}
	if err != nil {
		a.Fault = err.Error()
	}
	if err := a.use(); err != nil {
		a.Fault = err.Error()
	}
	return a
}

// use adds what the process has used.
func (a *answer) use() error {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	a.CPU, a.Allocs = used.Utime.Nano()+used.Stime.Nano(), memory.Mallocs
	return nil
}

// await returns once so many were seen, or no more come.
func (l *load) await(count int64) (seen, last int64) {
	for since := time.Now(); time.Since(since) < stalled; time.Sleep(time.Millisecond) {
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

// pump lets goroutines send for the time of an order, each one event after the
// other. It returns how many were sent, and when the first was.
func pump(o order, send func(payload []byte) error) (count, began int64, err error) {
	var over atomic.Bool
	var sent atomic.Int64
	faults := make([]error, o.Workers)
	var workers sync.WaitGroup
	start := make(chan struct{})
	for w := range o.Workers {
		workers.Go(func() {
			payload := make([]byte, o.Bytes)
			rand.NewChaCha8([32]byte{byte(w)}).Read(payload) // never fails
			var n int64
			<-start
			for ; !over.Load() && faults[w] == nil; n++ {
				faults[w] = send(payload)
			}
			sent.Add(n)
		})
	}
	began = monotonic()
	close(start)
	time.Sleep(o.For)
	over.Store(true)
	workers.Wait()
	return sent.Load(), began, errors.Join(faults...)
}
