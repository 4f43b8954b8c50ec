// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/paxos"
)

// ErrUnused means that a store has nothing to forget.
var ErrUnused = errors.New("store: nothing to forget: it was never used")

// ErrTooHigh means that no token can be issued above the given one.
var ErrTooHigh = errors.New("store: token too high")

// Forget turns the store into the store of a new member. No roster contains its new store id as a
// voter. Forget keeps the cluster, size, address, reset key and lease of the content, and
// increments the incarnation. It returns the path of a copy of the old state in the same directory.
// Forget is for a cluster that can no longer elect a leader (protocol.md section 6). The store then
// takes part only in a cluster whose tokens are above the given one and above HighestToken. Errors
// are those of Load, ErrUnused if there is nothing to forget, ErrTooHigh, and those of the file
// system; after an error the state is unchanged.
func (s *File) Forget(above uint64) (kept string, err error) {
	c, known, err := s.Load()
	switch {
	case err != nil:
		return "", err
	case !known || c.IsUnused() && above <= c.Floor:
		return "", ErrUnused
	}
	if above = max(above, c.HighestToken()); above > paxos.MaxFloor {
		return "", fmt.Errorf("%w: %d, the limit is %d", ErrTooHigh, above, paxos.MaxFloor)
	}
	kept = fmt.Sprintf("%s.%s.%d", s.dir.pathOf(stateName), c.StoreID, c.Incarnation)
	if err := s.copyState(filepath.Base(kept)); err != nil {
		return "", err
	}
	next := paxos.Durable{Incarnation: c.Incarnation + 1, Acceptor: paxos.Acceptor{Floor: above}}
	c.Key = storekey.New()
	next.StoreID = c.Key.StoreID()
	c.Durable = next
	return kept, s.Save(c)
}

// copyState copies the state file to another name. If an interrupted Forget has left an
// identical copy, that copy is kept.
func (s *File) copyState(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	content, err := s.dir.readFile(stateName, maxStateBytes, othersAll)
	if err != nil {
		return err
	}
	there, err := s.dir.readFile(name, maxStateBytes, othersAll)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := s.dir.replaceFile(name, content)
		if err != nil {
			return err
		}
		return f.Close()
	case err != nil || !bytes.Equal(there, content):
		path := s.dir.pathOf(name)
		return errors.Join(fmt.Errorf("store: %s already exists: move it away", path), err)
	}
	return nil
}
