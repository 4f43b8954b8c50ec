// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	api_errors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/record"
)

// callTimeout limits each request to a store without a majority. The LeaderElector retries.
const callTimeout = 2 * time.Second

// stoppedLeading is the event that a LeaderElector records when it no longer leads.
const stoppedLeading = "stopped leading"

// Lock implements resourcelock.Interface for one LeaderElector. client-go takes over a lock when
// its record has not changed for LeaseDuration. Another process can acquire a Lock when the term of
// its holder has ended.
type Lock struct {
	store    record.Store
	name     string
	key      string
	identity string

	mu   sync.Mutex
	held *holding.Held                     // nil unless acquired; kept after a loss, see RecordEvent
	last resourcelock.LeaderElectionRecord // as of the last successful update
	lost context.CancelCauseFunc           // ends the context of Run; nil unless Run is active
}

// NewLock returns the lock with a name that all replicas of the controller use. The name must be
// printable and at most 200 bytes long.
func NewLock(s record.Store, name string) (*Lock, error) {
	key, err := lock.Key("kubernetes/" + name)
	if err != nil {
		return nil, err
	}
	// The identity differs from those of other locks and earlier runs of this member.
	id := s.Session(nil).Member() + "_" + rand.Text()
	return &Lock{store: s, name: name, key: key, identity: id}, nil
}

// Run calls run, such as the Start of a manager or the Run of a LeaderElector. Once the lock is
// acquired, the context of run ends before another process can hold the lock. If the lock was lost,
// the error contains the reason. Calls to Run must not overlap.
func (l *Lock) Run(ctx context.Context, run func(context.Context) error) error {
	working, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	l.setLost(lost)
	err := run(working)
	l.setLost(nil)
	why := context.Cause(working)
	if why == nil || ctx.Err() != nil || errors.Is(why, leader.ErrResigned) {
		return err
	}
	return errors.Join(err, fmt.Errorf("kubernetes: lock %q was lost: %w", l.name, why))
}

func (l *Lock) setLost(lost context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = lost
	l.watchTerm()
}

// watchTerm ends the context of Run when the term ends. l.mu must be held.
func (l *Lock) watchTerm() {
	if l.held == nil || l.lost == nil {
		return
	}
	t, lost := l.held.Term(), l.lost
	go func() {
		<-t.Done()
		lost(t.Err())
	}()
}

// Term returns the term of the lock, with the fencing token, or the zero Term if the lock is not
// held.
func (l *Lock) Term() leader.Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		return leader.Term{}
	}
	return l.held.Term()
}

// Get implements resourcelock.Interface. The record of another holder always looks recently
// renewed, because the record.Store detects when a holder is gone.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		if !l.held.Term().Valid() {
			return nil, nil, l.lostErr()
		}
		raw, err := json.Marshal(l.last)
		found := l.last
		return &found, raw, err
	}
	r, err := record.Get(ctx, l.store, l.key)
	if errors.Is(err, record.ErrAbsent) {
		return nil, nil, api_errors.NewNotFound(schema.GroupResource{Resource: "locks"}, l.name)
	}
	if err != nil {
		return nil, nil, err
	}
	found := &resourcelock.LeaderElectionRecord{
		HolderIdentity: string(r.Value), RenewTime: meta.Now(),
	}
	raw, err := json.Marshal(found)
	return found, raw, err
}

// Create implements resourcelock.Interface. It takes the lock if no process holds it.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		return l.renew(r)
	}
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	held, err := holding.TryHeld(ctx, l.store, l.key)
	if err != nil {
		return err
	}
	l.held, l.last = held, r
	l.watchTerm()
	return nil
}

// Update implements resourcelock.Interface. It returns an error unless this process holds the lock.
// An update without a holder releases the lock.
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		return leader.ErrNotLeader
	}
	if r.HolderIdentity != "" {
		return l.renew(r)
	}
	held := l.held
	l.held = nil
	return held.Release(ctx)
}

// renew reports whether the lock is still held. l.mu must be held.
func (l *Lock) renew(r resourcelock.LeaderElectionRecord) error {
	if !l.held.Term().Valid() {
		return l.lostErr()
	}
	l.last = r
	return nil
}

// lostErr returns the reason why the lock was lost. l.mu must be held.
func (l *Lock) lostErr() error {
	why := cmp.Or(l.held.Term().Err(), leader.ErrLeaseEnded)
	return fmt.Errorf("kubernetes: lock %q was lost: %w", l.name, why)
}

// RecordEvent implements resourcelock.Interface. While the LeaderElector believes that it leads, a
// lost lock is not acquired again: another process may have led meanwhile.
func (l *Lock) RecordEvent(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if event == stoppedLeading && l.held != nil && !l.held.Term().Valid() {
		go l.held.Release(context.Background())
		l.held = nil
	}
}

// Identity implements resourcelock.Interface.
func (l *Lock) Identity() string { return l.identity }

// Describe implements resourcelock.Interface.
func (l *Lock) Describe() string { return "athena/" + l.name }
