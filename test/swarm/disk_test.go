// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"syscall"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/storedisk"
	"github.com/athena-go/athena/member"
)

// newDisk returns an empty disk of a node, which may be slow or full.
func (w *world) newDisk(node int) *storedisk.Disk {
	d := storedisk.New(rand.New(rand.NewPCG(w.plan.Seed, uint64(node))))
	d.Before = func(op storedisk.Op) error {
		w.mu.Lock()
		m, takes := w.machine[node], w.plan.Save
		if m.slow > 0 {
			takes = m.slow
		}
		full := m.full == op
		w.mu.Unlock()
		if op == storedisk.Sync {
			passTime(takes)
		}
		if full {
			return syscall.ENOSPC
		}
		return nil
	}
	return d
}

// checkedStore checks that a process saves a state before it shows it.
type checkedStore struct {
	store.Store
	p     *proc
	node  atomic.Pointer[cluster.Node] // nil until the node listens; it saves before that, too
	saved member.State                 // the state held by the last content that was saved
}

// Load implements store.Store.
func (s *checkedStore) Load() (store.Content, bool, error) {
	c, known, err := s.Store.Load()
	s.saved = c.Held
	return c, known, err
}

// Save implements store.Store.
func (s *checkedStore) Save(c store.Content) error {
	if n := s.node.Load(); n != nil && s.saved.Number.Less(c.Held.Number) {
		if v := n.View(); v.Version == c.Held.Version && v.Revision == c.Held.Revision && v.Quorate {
			s.p.failRun("unsaved", "run %d of node %d shows %v before it is saved",
				s.p.run, s.p.node, c.Held.Number)
		}
	}
	s.p.noteStore(c.StoreID, s.p.node)
	s.p.checkSeats(c.Held)
	err := s.Store.Save(c)
	s.saved = c.Held
	return err
}

// Close implements store.Store. A killed process closes nothing.
func (s *checkedStore) Close() error {
	if err := s.Store.Close(); !errors.Is(err, storedisk.ErrDead) {
		return err
	}
	return nil
}
