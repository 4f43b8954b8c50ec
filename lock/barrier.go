// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// maxParties leaves room for another condition of a commit (message.MaxConditions).
const maxParties = 60

// Barrier is the handle of one member for a barrier at which callers on all members meet. They form
// groups in the order in which they come. A barrier excludes no caller: one whose member crashes
// or is cut off counts as one that has left. Its methods may be called concurrently.
type Barrier struct {
	*calls
	store   record.Store
	name    string
	prefix  string // of the keys of all records
	open    string // key of the record that exists while a group is inside
	parties int
}

// NewBarrier returns the barrier with the given name for groups of 1 to 60 parties. All members
// must use the same number. The form of the name is that of the name of a lock (see New), but a
// lock may have the same name. NewBarrier returns an error if an argument is invalid. It does not
// block.
func NewBarrier(s record.Store, name string, parties int) (*Barrier, error) {
	if parties < 1 || parties > maxParties {
		return nil, fmt.Errorf("lock: barrier %.300q: %d parties, want 1 to %d", name, parties,
			maxParties)
	}
	job, rest := splitName(name)
	place, err := holding.BarrierKey(job, rest, rand.Text())
	if err != nil {
		return nil, fmt.Errorf("lock: invalid name %.300q: %w", name, err)
	}
	prefix := place[:strings.LastIndex(place, "/")+1]
	return &Barrier{
		calls: newCalls(), store: s, name: name, prefix: prefix, open: prefix + "open",
		parties: parties,
	}, nil
}

// Do waits until the callers of a group have come, runs fn, waits until the functions of the group
// have returned, and returns the error of fn. The context of fn ends with ctx or with Close.
// Callers that come meanwhile wait for the next group.
//
// If fn did not run, the error is leader.ErrClosed, the error with which the store refused a
// record, or the cause of ctx. If ctx is done after fn has returned, Do does not wait for the
// others.
func (b *Barrier) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if err := b.beginCall(); err != nil {
		return err
	}
	defer b.running.Done()
	ctx, stop := holding.WithStop(ctx, b.life)
	defer stop()
	p := &party{Barrier: b, session: b.store.Session(nil)}
	p.place = &holding.Slot{Store: b.store, Session: p.session, Key: b.prefix + rand.Text()}
	err := p.watchUntil(ctx, p.enterGroup)
	if err == nil {
		err = fn(ctx)
	} else {
		err = fmt.Errorf("lock: barrier %q: %w", b.name, err)
	}
	left := make(chan struct{})
	b.running.Go(func() {
		defer close(left)
		ctx := context.WithoutCancel(ctx)
		_ = p.place.Close(ctx) // returns when the store is closed, at the latest
		if !p.group.IsZero() {
			_ = p.watchUntil(ctx, p.leaveGroup)
		}
	})
	select {
	case <-left:
	case <-ctx.Done():
	}
	return err
}

// Close ends the contexts of the functions with leader.ErrClosed, and waits until they have left.
// If ctx is done first, Close returns an error with its cause, and may be called again.
func (b *Barrier) Close(ctx context.Context) error {
	if err := b.closeCalls(ctx); err != nil {
		return fmt.Errorf("lock: close barrier %q: a call is still running: %w", b.name, err)
	}
	return nil
}

// party is a call of Barrier.Do.
type party struct {
	*Barrier
	session record.Session
	place   *holding.Slot
	group   member.Token // token of the open record of its group; zero before the group is complete
}

// watchUntil calls step after each change until it reports that it is done, or fails.
func (p *party) watchUntil(
	ctx context.Context, step func(context.Context, meeting) (done bool, err error),
) error {
	watched, stop := context.WithCancel(ctx)
	defer stop()
	var err error
	done := false
	look := func(ctx context.Context) time.Duration {
		var m meeting
		if m, err = p.readMeeting(ctx); err == nil {
			done, err = step(ctx, m)
		}
		if done || err != nil && !holding.IsTransient(err) {
			stop()
		}
		return holding.LookInterval
	}
	holding.Watch(watched, p.store, p.prefix, nil, look)
	if over := context.Cause(ctx); over != nil && !done {
		return errors.Join(over, err)
	}
	return err
}

// meeting is the state of a barrier.
type meeting struct {
	places []member.Record // in the order in which they were committed
	open   member.Record   // zero if no group is inside
	last   member.Record   // key and token of the last place of the group that is inside
}

func (b *Barrier) readMeeting(ctx context.Context) (m meeting, err error) {
	if m.places, err = b.store.List(ctx, b.prefix); err != nil {
		return m, err
	}
	m.places = slices.DeleteFunc(m.places, func(r member.Record) bool {
		if r.Key == b.open {
			m.open = r
		}
		return strings.Contains(r.Key[len(b.prefix):], "/") || r.Key == b.open
	})
	slices.SortFunc(m.places, comparePlaces)
	if v := m.open.Value; len(v) > tokenBytes {
		m.last.Token.Version = binary.BigEndian.Uint64(v)
		m.last.Token.Revision = binary.BigEndian.Uint64(v[tokenBytes/2:])
		m.last.Key = string(v[tokenBytes:])
	}
	return m, nil
}

// tokenBytes is the length of a token in the value of the open record. A key follows.
const tokenBytes = 16

// formatLast returns the value of the open record for a group with this last place.
func formatLast(r member.Record) []byte {
	v := binary.BigEndian.AppendUint64(nil, r.Token.Version)
	return append(binary.BigEndian.AppendUint64(v, r.Token.Revision), r.Key...)
}

// isEmpty reports whether all callers of the group that was inside have left.
func (m meeting) isEmpty() bool {
	return len(m.places) == 0 || comparePlaces(m.last, m.places[0]) < 0
}

// enterGroup joins the barrier, and reports whether the group of this caller is complete.
func (p *party) enterGroup(ctx context.Context, m meeting) (done bool, err error) {
	i := slices.IndexFunc(m.places, func(r member.Record) bool { return r.Key == p.place.Key })
	switch {
	case i < 0:
		_, err = p.place.Set(ctx, record.Op{Kind: record.Absent, Key: p.place.Key})
		return false, err
	case m.open.Token.IsZero():
	case comparePlaces(m.places[i], m.last) <= 0:
		p.group = m.open.Token
		return true, nil
	case m.isEmpty():
		return false, p.closeGroup(ctx, m)
	}
	if i != p.parties-1 || !m.open.Token.IsZero() {
		return false, nil
	}
	ops := []record.Op{
		{Kind: record.Absent, Key: p.open},
		{Kind: record.Set, Key: p.open, Value: formatLast(m.places[i])},
	}
	for _, r := range m.places[:p.parties] {
		ops = append(ops, record.Op{Kind: record.Held, Key: r.Key, Token: r.Token})
	}
	_, err = p.session.Commit(ctx, ops...)
	return false, err
}

// leaveGroup reports whether the group of this caller has left.
func (p *party) leaveGroup(ctx context.Context, m meeting) (done bool, err error) {
	switch {
	case m.open.Token != p.group:
		return true, nil
	case m.isEmpty():
		err = p.closeGroup(ctx, m)
		return err == nil || errors.Is(err, leader.ErrClosed), err
	}
	return false, nil
}

// closeGroup lets the next group in.
func (p *party) closeGroup(ctx context.Context, m meeting) error {
	_, err := p.session.Commit(ctx, record.Op{Kind: record.Held, Key: p.open, Token: m.open.Token},
		record.Op{Kind: record.Drop, Key: p.open})
	return err
}
