// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/athena-go/athena/member"
)

// Registration is a handler in a Mux, which can be replaced or removed at any time: see Replacing
// and Remove.
type Registration struct {
	mux   *Mux
	place *place
	match func(from member.Member, event any) bool // nil matches every event
	// run handles an event or a stream. The argument event is a pointer to the event, or a Stream.
	run func(ctx context.Context, from member.Member, event any) (answer any, err error)

	// calls is the number of running calls, less removedBias after the removal.
	calls atomic.Int64
	idle  chan struct{}
	close sync.Once
}

const removedBias = 1 << 32

// place is the place of a handler among the handlers of its type. A new handler takes the place of
// the handler that it replaces, so each event gets exactly one of the two.
type place struct {
	handler atomic.Pointer[Registration] // nil after the handler was removed
	route   *route
	typ     reflect.Type // type that the handler is for; may be an interface
}

// dispatch holds the places to which an event is passed. The places in otherwise get the event only
// if no handler took it.
type dispatch struct{ first, otherwise []*place }

// hasHandlers reports whether the route exists and its events have handlers.
func (r *route) hasHandlers() bool {
	if r == nil {
		return false
	}
	d := r.dispatch.Load()
	return len(d.first)+len(d.otherwise) > 0
}

// beginCall returns the handler of a place, or nil if it was removed. The caller must call endCall.
func (p *place) beginCall() *Registration {
	for {
		h := p.handler.Load()
		if h == nil || h.calls.Add(1) > 0 {
			return h
		}
		h.endCall() // h was replaced or removed after it was loaded
	}
}

func (h *Registration) endCall() {
	if h.calls.Add(-1) == -removedBias {
		h.close.Do(func() { close(h.idle) })
	}
}

// Remove removes the handler. After Remove has returned, no further event is passed to it. Remove
// does not wait for running calls. The returned channel is closed when they have returned, so a
// handler that removes itself must not wait for the channel. Queued events go to the remaining
// handlers. If no handler remains, queued events are dropped, and senders that wait get ErrUnknown.
// If the handler was already removed or replaced, Remove only returns the channel.
//
// The type keeps its name, its options and its counters in Stats.
func (h *Registration) Remove() (idle <-chan struct{}) {
	h.mux.mu.Lock()
	defer h.mux.mu.Unlock()
	if p := h.place; p != nil && p.handler.Load() == h {
		p.route.places = slices.DeleteFunc(p.route.places, func(q *place) bool { return q == p })
		h.mux.publishPlaces(p.route)
		p.handler.Store(nil)
		h.retire()
	}
	return h.idle
}

// retire makes all later calls of beginCall fail. It is called once.
func (h *Registration) retire() {
	if h.calls.Add(-removedBias) == -removedBias {
		h.close.Do(func() { close(h.idle) })
	}
}

// Replacing makes the new handler replace old in one step: each event, request or stream is handled
// by one of the two. Both must handle the same type, or streams of the same name. Running calls of
// old continue; old.Remove returns the channel that is closed when they have returned. If old was
// already removed, the new handler is added.
func Replacing(old *Registration) Option {
	return func(_ *Mux, s *settings) { s.replaced = old }
}

// register adds a handler to the route of its type; h is nil for Register. fresh becomes the route
// if the type is new.
func (m *Mux) register(fresh *route, k kind, h *Registration, opts []Option) *Registration {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.faults)
	r := m.types[fresh.typ]
	if r == nil {
		r = fresh
	}
	if k == ofEvents && fresh.typ.Kind() == reflect.Interface {
		r = &m.interfaces
	}
	s, old := m.applyOptions(r, fresh, opts)
	if r != &m.interfaces {
		m.checkName(fresh.typ, s)
	}
	if h != nil {
		m.checkHandler(r, fresh.typ, k, h, old)
	}
	m.panicIfRunning(before)
	if r == fresh || m.live.Load() == nil {
		r.settings = s
	}
	if r == fresh {
		m.types[r.typ] = r
		m.replaceTable(func() { delete(m.types, r.typ) })
		m.publishPlaces(r)
	}
	switch {
	case h == nil:
	case len(m.faults) > before: // Start will fail
		r.kind = cmp.Or(r.kind, k)
		h.retire()
	default:
		m.addPlace(r, fresh.typ, k, h, old)
	}
	return h
}

// applyOptions returns the settings of a route after opts, and the handler to replace, or nil.
func (m *Mux) applyOptions(r, fresh *route, opts []Option) (s settings, old *Registration) {
	s = r.settings
	if r == &m.interfaces {
		s = fresh.settings
	}
	given := s
	for _, opt := range opts {
		opt(m, &s)
	}
	old, s.replaced = s.replaced, nil
	switch {
	case s == given:
	case r == &m.interfaces:
		m.addFault("%v is an interface: its only option is Replacing", fresh.typ)
	case r != fresh && m.live.Load() != nil:
		m.addFault("the options of %s cannot change while a node uses the Mux", r.name)
	}
	return s, old
}

// checkName adds a fault if values of a type cannot be sent under the name in its settings.
func (m *Mux) checkName(t reflect.Type, s settings) {
	switch {
	case t.Kind() == reflect.Pointer:
		m.addFault("%v: register the type itself, not a pointer to it", t)
	case t.Kind() == reflect.Interface:
		m.addFault("%v is an interface: register the types of its values", t)
	case s.named && !validName(s.name):
		m.addFault("%v: name %q must have 1 to %d printable characters", t, s.name, maxNameBytes)
	case !s.named:
		if err := checkTypeName(t); err != nil {
			m.addFault("%w", err)
		}
	}
}

// checkHandler adds a fault if h cannot be a handler of the route, or cannot replace old.
func (m *Mux) checkHandler(r *route, t reflect.Type, k kind, h, old *Registration) {
	h.mux, h.idle = m, make(chan struct{})
	others := len(r.places)
	if old.isCurrent() {
		others--
	}
	name := fmt.Sprintf("streams named %q", r.name)
	if t != nil {
		name = cmp.Or(r.name, t.Name())
	}
	switch {
	case h.run == nil:
		m.addFault("the handler of %s is nil", name)
	case old != nil && (old.place == nil || old.place.route != r || old.place.typ != t):
		m.addFault("the handler of %s replaces a handler of another type", name)
	case k == ofRequests && (r.kind == ofEvents || r.isRaw || others > 0):
		m.addFault("%s cannot have a handler of requests beside other handlers", name)
	case k == ofEvents && r.kind == ofRequests:
		m.addFault("%s is a type of requests, so it can have no other handler", name)
	}
}

// panicIfRunning panics with all faults except the first n if a node uses the Mux.
func (m *Mux) panicIfRunning(n int) {
	if m.live.Load() != nil && len(m.faults) > n {
		err := errors.Join(m.faults[n:]...)
		m.faults = m.faults[:n]
		panic(err)
	}
}

// replaceTable publishes a new type or stream to the node that uses the Mux. If the table has
// mistakes, it calls undo and panics.
func (m *Mux) replaceTable(undo func()) {
	run := m.live.Load()
	if run == nil {
		return
	}
	table, err := m.compileTable(run.setup.Local)
	if err != nil {
		undo()
		panic(err)
	}
	run.table.Store(table)
}

// addPlace puts a handler into the place of old, or behind the other handlers of the route.
func (m *Mux) addPlace(r *route, t reflect.Type, k kind, h, old *Registration) {
	p := &place{route: r, typ: t}
	replaces := old.isCurrent()
	if replaces {
		p = old.place
	} else {
		r.places = append(r.places, p)
	}
	if r.kind == ofNothing {
		m.settleKind(r, k)
	}
	h.place = p
	p.handler.Store(h)
	m.publishPlaces(r)
	if replaces {
		old.retire()
	}
}

// isCurrent reports whether the handler was added, and not yet replaced or removed.
func (h *Registration) isCurrent() bool {
	return h != nil && h.place != nil && h.place.handler.Load() == h
}

// settleKind sets the kind of a route that has had no handler yet.
func (m *Mux) settleKind(r *route, k kind) {
	r.kind = k
	if m.live.Load() != nil {
		r.makeSlots()
	}
}

// publishPlaces makes the places of a route visible to events.
func (m *Mux) publishPlaces(r *route) {
	if r == &m.interfaces {
		for _, r := range m.types {
			m.publishPlaces(r)
		}
		return
	}
	d := &dispatch{}
	for _, p := range r.places {
		if r.isRaw && p.handler.Load().match == nil {
			d.otherwise = append(d.otherwise, p)
		} else {
			d.first = append(d.first, p)
		}
	}
	if !r.isRaw && r.typ != nil && r.kind != ofRequests {
		for _, p := range m.interfaces.places {
			if r.typ.Implements(p.typ) || reflect.PointerTo(r.typ).Implements(p.typ) {
				d.otherwise = append(d.otherwise, p)
			}
		}
	}
	if r.kind == ofNothing && len(d.otherwise) > 0 && m.live.Load() != nil {
		m.settleKind(r, ofEvents)
	}
	r.dispatch.Store(d)
}
