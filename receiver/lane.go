// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"

	"github.com/athena-go/athena/member"
)

// LaneLength is how many events of one sender and type wait at most.
const LaneLength = 64

// Errors of Deliver.
var (
	// ErrUnknown says that no handler takes events of this name.
	ErrUnknown = errors.New("receiver: no handler")
	// ErrMalformed says that a payload is not an event of its type.
	ErrMalformed = errors.New("receiver: malformed event")
)

type item struct {
	from  member.Member
	event any
}

// lane holds the events of one sender to one type. It exists, and has a
// goroutine, while it holds any or one is being handled.
type lane struct {
	items []item
	space chan struct{} // closed when a full lane has room again
}

// Deliver hands an event that came from another member to its handlers. It
// blocks while the lane is full, until ctx ends or the Mux closes.
func (m *Mux) Deliver(ctx context.Context, from member.Member, raw Raw) error {
	r, err := m.lookup(raw.Name)
	if err != nil {
		return err
	}
	err = m.scan(raw.Payload)
	var event any
	if err == nil {
		event, err = r.tryDecode(raw)
	}
	if err != nil {
		m.count(&r.stats.Malformed)
		return fmt.Errorf("%w %q: %w", ErrMalformed, r.name, err)
	}
	return m.put(ctx, r, from, event)
}

// tryDecode is the route's decoding. A library that panics over bytes of a peer, as
// msgpack does over a map whose keys cannot be hashed, must not end the process.
func (r *route) tryDecode(raw Raw) (event any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoding panics: %v", p)
		}
	}()
	return r.decode(raw)
}

// Emit hands an event of the own node to the handlers of its type, and does
// nothing when there are none. It blocks like Deliver.
func (m *Mux) Emit(ctx context.Context, from member.Member, event any) error {
	m.mu.Lock()
	r := m.types[reflect.TypeOf(event)]
	m.mu.Unlock()
	if r == nil || len(r.handlers) == 0 {
		return nil
	}
	return m.put(ctx, r, from, event)
}

// lookup finds the route of a name: its own, or that of Raw.
func (m *Mux) lookup(name string) (*route, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil || m.run.Err() != nil {
		return nil, ErrClosed
	}
	for _, r := range []*route{m.names[name], m.types[reflect.TypeFor[Raw]()]} {
		if r != nil && len(r.handlers) > 0 {
			return r, nil
		}
	}
	m.unknown++
	return nil, fmt.Errorf("%w for events named %.*q", ErrUnknown, MaxNameBytes, name)
}

func (m *Mux) count(counter *uint64) {
	m.mu.Lock()
	*counter++
	m.mu.Unlock()
}

// put adds an event to the lane of its sender, once there is room.
func (m *Mux) put(ctx context.Context, r *route, from member.Member, event any) error {
	for {
		full, err := m.tryPut(r, from, event)
		if err != nil || full == nil {
			return err
		}
		select {
		case <-full.space:
		case <-full.closed:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fullLane is what somebody waits for who has an event for one.
type fullLane struct{ space, closed <-chan struct{} }

// tryPut adds the event, or says what to wait for.
func (m *Mux) tryPut(r *route, from member.Member, event any) (*fullLane, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil || m.run.Err() != nil {
		return nil, ErrClosed
	}
	l := r.lanes[from.Address]
	if l == nil {
		l = &lane{}
		r.lanes[from.Address] = l
		m.work.Go(func() { m.drain(r, l, from.Address) })
	}
	if len(l.items) >= LaneLength {
		if l.space == nil {
			l.space = make(chan struct{})
		}
		return &fullLane{l.space, m.run.Done()}, nil
	}
	l.items = append(l.items, item{from, event})
	return nil, nil
}

// drain handles the events of a lane until there are none.
func (m *Mux) drain(r *route, l *lane, sender member.Address) {
	finished := false
	defer func() {
		if !finished {
			// A handler ended its goroutine (runtime.Goexit); the lane goes on.
			m.work.Go(func() { m.drain(r, l, sender) })
		}
	}()
	for {
		it, ok := m.take(r, l, sender)
		if !ok {
			finished = true
			return
		}
		for _, h := range r.handlers {
			if err := call(m.run, h, it); err != nil {
				m.fail(r, it.from, err)
			}
		}
	}
}

// take removes the oldest event of a lane, and the lane when it is empty or
// the Mux was closed.
func (m *Mux) take(r *route, l *lane, sender member.Address) (item, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(l.items) == 0 || m.run.Err() != nil {
		r.stats.Dropped += uint64(len(l.items))
		delete(r.lanes, sender)
		return item{}, false
	}
	it := l.items[0]
	l.items = slices.Delete(l.items, 0, 1)
	if l.space != nil {
		close(l.space)
		l.space = nil
	}
	r.stats.Handled++
	return it, true
}

// call runs one handler and turns its panic into an error.
func call(
	ctx context.Context, h func(context.Context, member.Member, any) error, it item,
) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return h(ctx, it.from, it.event)
}

func (m *Mux) fail(r *route, from member.Member, err error) {
	counter := &r.stats.Failed
	if _, panicked := errors.AsType[*PanicError](err); panicked {
		counter = &r.stats.Panicked
	}
	m.count(counter)
	if m.setup.Report != nil {
		m.setup.Report(Failure{Event: r.name, From: from, Err: err})
	}
}

// Stats counts the events of one type; Event is empty for those that no
// handler took.
type Stats struct {
	Event     string
	Queued    int    // in lanes now
	Handled   uint64 // taken by handlers
	Failed    uint64 // handlers that returned an error
	Panicked  uint64 // handlers that panicked
	Malformed uint64 // payloads that were not of the type
	Dropped   uint64 // waited when the Mux was closed, or had no handler
}

// Stats lists the types that have handlers, sorted by name, and first what had
// none.
func (m *Mux) Stats() []Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []Stats{{Dropped: m.unknown}}
	for _, r := range m.types {
		s := r.stats
		s.Event = r.name
		for _, l := range r.lanes {
			s.Queued += len(l.items)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Stats) int { return cmp.Compare(a.Event, b.Event) })
	return all
}
