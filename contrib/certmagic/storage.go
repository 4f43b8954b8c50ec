// SPDX-License-Identifier: Apache-2.0

package certmagic

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	magic "github.com/caddyserver/certmagic"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/record"
)

var errNotLocked = errors.New("this process has not locked it")

// Storage is a certmagic.Storage with locks on a record.Store.
//
// certmagic does not ask whether it still holds a lock. So Store and Delete return an error for the
// files of a lost lock, until certmagic unlocks it or acquires it again. Both methods check the
// lock before they write. A process that is paused between the check and the write can still write.
type Storage struct {
	magic.Storage
	locks record.Store

	mu   sync.Mutex
	held map[string]*heldLock // by name
}

// heldLock is a name that this process has locked or is locking.
type heldLock struct {
	*holding.Held               // nil until the lock is acquired
	unlocked      chan struct{} // closed when the name is free again
}

// NewStorage returns a Storage that keeps files in a storage of certmagic and locks in a
// record.Store.
func NewStorage(files magic.Storage, locks record.Store) *Storage {
	return &Storage{Storage: files, locks: locks, held: make(map[string]*heldLock)}
}

// Lock implements certmagic.Locker. It waits until no process holds the lock.
func (s *Storage) Lock(ctx context.Context, name string) error {
	for {
		other := s.reserveName(name)
		if other == nil {
			return s.acquire(ctx, name, holding.AcquireHeld)
		}
		select {
		case <-other.unlocked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TryLock implements certmagic.TryLocker.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	if s.reserveName(name) != nil {
		return false, nil
	}
	err := s.acquire(ctx, name, holding.TryHeld)
	if errors.Is(err, holding.ErrLocked) {
		return false, nil
	}
	return err == nil, err
}

// reserveName reserves a name for a goroutine of this process. If the name is already reserved, it
// returns its lock.
func (s *Storage) reserveName(name string) (other *heldLock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held[name]; h != nil {
		return h
	}
	s.held[name] = &heldLock{unlocked: make(chan struct{})}
	return nil
}

// acquire acquires the lock of a reserved name, or ends the reservation.
func (s *Storage) acquire(
	ctx context.Context, name string,
	acquire func(context.Context, record.Store, string) (*holding.Held, error),
) error {
	held, err := acquire(ctx, s.locks, lockKey(name))
	if err != nil {
		s.remove(name)
		return fmt.Errorf("certmagic: lock %q: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name].Held = held
	return nil
}

// remove ends a reservation, and returns the lock if it was acquired.
func (s *Storage) remove(name string) *holding.Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[name]
	if h == nil {
		return nil
	}
	delete(s.held, name)
	close(h.unlocked)
	return h.Held
}

// Unlock implements certmagic.Locker. If the lock was lost, the error wraps the reason.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	held := s.remove(name)
	if held == nil {
		return fmt.Errorf("certmagic: unlock %q: %w", name, errNotLocked)
	}
	if err := held.Release(ctx); err != nil {
		return fmt.Errorf("certmagic: unlock %q: %w", name, err)
	}
	return nil
}

// RenewLockLease implements certmagic.LockLeaseRenewer. certmagic calls it before each attempt to
// obtain or renew a certificate. If the lock was lost, RenewLockLease waits until this process
// holds the lock again. A held lock needs no renewal.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	h, valid := s.findLock(name)
	if valid {
		return nil
	}
	var held *holding.Held
	err := errNotLocked
	if h != nil {
		held, err = holding.AcquireHeld(ctx, s.locks, lockKey(name))
	}
	if err == nil && !s.replace(name, h, held) {
		err = errors.Join(errNotLocked, held.Release(ctx)) // unlocked meanwhile
	}
	if err != nil {
		return fmt.Errorf("certmagic: renew lock %q: %w", name, err)
	}
	return nil
}

// findLock returns the acquired lock of a name, if any, and whether it is still held.
func (s *Storage) findLock(name string) (h *heldLock, valid bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h = s.held[name]; h == nil || h.Held == nil {
		return nil, false
	}
	return h, h.Term().Valid()
}

// replace replaces the lock of a name, unless it was unlocked meanwhile.
func (s *Storage) replace(name string, h *heldLock, held *holding.Held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[name] != h {
		return false
	}
	h.Held = held
	return true
}

// Store implements certmagic.Storage.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	if err := s.lostErr(key); err != nil {
		return err
	}
	return s.Storage.Store(ctx, key, value)
}

// Delete implements certmagic.Storage.
func (s *Storage) Delete(ctx context.Context, key string) error {
	if err := s.lostErr(key); err != nil {
		return err
	}
	return s.Storage.Delete(ctx, key)
}

// lostErr returns an error if this process has lost the lock of a file. certmagic keeps the files
// of a site or an account in one directory. The name of their lock ends with the name of this
// directory.
func (s *Storage) lostErr(key string) error {
	owner := path.Base(path.Dir(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.held {
		if h.Held == nil || h.Term().Valid() ||
			!strings.HasSuffix(magic.StorageKeys.Safe(name), owner) {
			continue
		}
		why := cmp.Or(h.Term().Err(), leader.ErrLeaseEnded)
		return fmt.Errorf("certmagic: write %q: lock %q was lost: %w", key, name, why)
	}
	return nil
}

// lockKey returns the key of a lock. If the name does not fit into a key, the key contains the hash
// of the name.
func lockKey(name string) string {
	key, err := lock.Key("certmagic/" + name)
	if err != nil {
		key, _ = lock.Key(fmt.Sprintf("certmagic/%x", sha256.Sum256([]byte(name)))) // valid
	}
	return key
}
