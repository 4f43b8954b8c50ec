// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/athena-go/athena/paxos"
)

// ErrUnused says that a store has nothing to forget.
var ErrUnused = errors.New("store: nothing was ever promised, voted for or held with it")

// Forget makes the store that of a new member: a new store id, which nobody
// counts as a voter, and nothing promised, voted for or held. Its cluster, size,
// address, reset key and the lease that it may owe stay, and the incarnation grows. It
// returns where the state as it was is kept, in the same directory. It is for a
// roster that can never elect again (protocol.md section 6), and loses the fencing
// token. Errors are those of Load, ErrUnused where nothing would change, and those of
// the file system; after one the state is as it was.
func (s *File) Forget() (kept string, err error) {
	c, known, err := s.Load()
	switch {
	case err != nil:
		return "", err
	case !known || c.IsUnused():
		return "", ErrUnused
	}
	kept = fmt.Sprintf("%s.%s.%d", s.folder.pathOf(stateName), c.StoreID, c.Incarnation)
	if err := s.copyState(filepath.Base(kept)); err != nil {
		return "", err
	}
	next := paxos.Durable{Incarnation: c.Incarnation + 1}
	rand.Read(next.StoreID[:]) // never fails
	c.Durable = next
	return kept, s.Save(c)
}

// copyState writes the state file as it is under another name. One that a Forget has
// left there which a crash cut off is as good.
func (s *File) copyState(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return ErrClosed
	}
	content, err := s.folder.readFile(stateName, maxStateBytes, othersWrite)
	if err != nil {
		return err
	}
	there, err := s.folder.readFile(name, maxStateBytes, othersWrite)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := s.folder.replaceFile(name, content)
		if err != nil {
			return err
		}
		return f.Close()
	case err != nil || !bytes.Equal(there, content):
		path := s.folder.pathOf(name)
		return errors.Join(fmt.Errorf("store: %s is there already: move it away", path), err)
	}
	return nil
}
