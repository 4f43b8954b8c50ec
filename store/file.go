// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

const (
	stateName = "athena.state"
	lockName  = "athena.lock"
	keyName   = "reset.key"

	maxKeyBytes = 128 // of the key file; a sound one has 65

	// What group and others may not do: write anything that the store relies on,
	// and have a secret at all.
	othersWrite fs.FileMode = 0o022
	othersAll   fs.FileMode = 0o077
)

var (
	// ErrCorrupt says that a file of the store is damaged. It was left as it is.
	ErrCorrupt = errors.New("store: corrupt file")
	// ErrVersion says that the state file has a format that this program does
	// not know. It was left as it is.
	ErrVersion = errors.New("store: unknown format version")
	// ErrLocked says that another process, or another File of this one, has
	// the store open.
	ErrLocked = errors.New("store: directory is in use")
	// ErrInsecure says that others than the owner may write what the store
	// relies on, or read its secret.
	ErrInsecure = errors.New("store: open to others than its owner")
	// ErrClosed is returned by a File after Close.
	ErrClosed = errors.New("store: closed")
)

// File is a store in a directory of its own. Its methods may be called from
// anywhere; they block for the time of the disk operation.
type File struct {
	dir string

	mu     sync.Mutex
	folder *os.File // dir, to sync it
	lock   *os.File // nil once closed
	// loaded says that Load understood the state file or found none. Until
	// then Save must not replace it.
	loaded bool
	// wrote is the state file as this File has written it, until a write fails.
	wrote image
}

// OpenFile opens the store in dir, which is made, with mode 0700, when it does
// not exist. It holds the store until Close. Errors wrap ErrLocked, ErrInsecure
// or the error of the file system.
func OpenFile(dir string) (*File, error) {
	if err := inspect(dir); err != nil {
		return nil, err
	}
	dir = filepath.Clean(dir)
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("store: make the directory: %w", err)
	}
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("store: open the directory: %w", err)
	}
	s := &File{dir: dir, folder: folder}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return s, nil
}

func (s *File) open() error {
	info, err := s.folder.Stat()
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := checkMode(s.dir, info, othersWrite); err != nil {
		return err // somebody has made it meanwhile
	}
	if s.lock, err = lockFile(filepath.Join(s.dir, lockName)); err != nil {
		return err
	}
	if err := s.removeLeftovers(); err != nil {
		return errors.Join(fmt.Errorf("store: %w", err), s.lock.Close())
	}
	return nil
}

// Close ends the use of the store; a second call does nothing.
func (s *File) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	err := errors.Join(s.folder.Close(), s.lock.Close())
	s.lock = nil
	return err
}

// Load returns what was saved last; false when nothing ever was. Errors wrap
// ErrCorrupt, ErrVersion, ErrInsecure, ErrClosed or the error of the file
// system, and say what to do.
func (s *File) Load() (Content, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return Content{}, false, ErrClosed
	}
	c, known, err := loadState(s.dir)
	s.loaded, s.wrote = err == nil, image{}
	return c, known, err
}

// Peek returns what Load would return of the store in dir, also while a node uses
// it: it takes no lock, and makes and changes nothing. Of what a running node saves
// it sees all or nothing. Its errors are those of OpenFile, but for ErrLocked, of Load
// and of ResetKey.
func Peek(dir string) (Content, bool, error) {
	if err := inspect(dir); err != nil {
		return Content{}, false, err
	}
	c, known, err := loadState(dir)
	for n := 0; n < 2 && errors.Is(err, ErrCorrupt); n++ {
		c, known, err = loadState(dir) // it may have been read while it was written
	}
	if err != nil {
		return c, false, err
	}
	if _, _, err := readKey(dir); err != nil {
		return c, false, err
	}
	return c, known, nil
}

// loadState reads the state file of a directory; false where there is none.
func loadState(dir string) (Content, bool, error) {
	path := filepath.Join(dir, stateName)
	content, err := readFile(path, maxStateBytes, othersWrite)
	if errors.Is(err, fs.ErrNotExist) {
		return Content{}, false, nil
	}
	var c Content
	if err == nil {
		c, err = parse(content)
	}
	switch {
	case errors.Is(err, ErrCorrupt):
		err = fmt.Errorf("%s: %w; move it away and start again: the node joins as a new one "+
			"(a seed where nobody leads needs JoinOnly, until it has joined); "+
			"do not put an old copy in its place", path, err)
	case errors.Is(err, ErrVersion):
		err = fmt.Errorf("%s: %w", path, err)
	}
	return c, err == nil, err
}

// Save replaces what is stored by c, whose states must not be changed afterwards. An
// error leaves a sound file, of the old content as a rule; the node must then not act
// as if c were stored. Save is refused until Load has understood the present file or
// found none.
func (s *File) Save(c Content) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lock == nil:
		return ErrClosed
	case !s.loaded:
		return errors.New("store: Save before a Load that succeeded")
	}
	if added, err := s.add(c); added || err != nil {
		return err
	}
	content, whole, err := format(c)
	if err != nil {
		return fmt.Errorf("store: nothing was saved: %w", err)
	}
	if err := s.replace(stateName, content); err != nil {
		return err
	}
	s.wrote = whole
	return nil
}

// add writes c into the room of the state file; false where there is none, or no file
// that this File wrote.
func (s *File) add(c Content) (bool, error) {
	before := s.wrote
	s.wrote = image{} // what a write that fails leaves is not gone on with
	if before.size == 0 {
		return false, nil
	}
	entry, after, err := before.add(c)
	if err != nil {
		s.wrote = before
		return false, fmt.Errorf("store: nothing was saved: %w", err)
	}
	if entry == nil {
		return false, nil
	}
	written, err := s.overwrite(before, entry)
	if err != nil {
		return false, fmt.Errorf("store: write %s: %w", filepath.Join(s.dir, stateName), err)
	}
	if written {
		s.wrote = after
	}
	return written, nil
}

// overwrite writes an entry into the room of the state file and syncs it; false where
// the file is not as it was left.
func (s *File) overwrite(as image, entry []byte) (bool, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, stateName), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := f.Stat()
	if err != nil || info.Size() != int64(as.size) {
		return false, errors.Join(err, f.Close())
	}
	if _, err = f.WriteAt(entry, int64(as.end)); err == nil {
		err = f.Sync()
	}
	return err == nil, errors.Join(err, f.Close())
}

// ResetKey returns the key for stateless resets and makes it at the first
// call. An error wraps ErrCorrupt, ErrInsecure, ErrClosed or the error of the
// file system.
func (s *File) ResetKey() ([32]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return [32]byte{}, ErrClosed
	}
	key, known, err := readKey(s.dir)
	if err != nil || known {
		return key, err
	}
	key = newResetKey()
	return key, s.replace(keyName, fmt.Appendf(nil, "%x\n", key))
}

// readKey reads the key file of a directory; false where there is none.
func readKey(dir string) (key [32]byte, known bool, err error) {
	path := filepath.Join(dir, keyName)
	content, err := readFile(path, maxKeyBytes, othersAll)
	if errors.Is(err, fs.ErrNotExist) {
		return key, false, nil
	}
	if err == nil {
		b, bad := hex.DecodeString(strings.TrimSuffix(string(content), "\n"))
		if bad != nil || len(b) != len(key) {
			err = corrupt("want %d hexadecimal digits", 2*len(key))
		}
		copy(key[:], b)
	}
	switch {
	case errors.Is(err, ErrCorrupt):
		err = fmt.Errorf("%s: %w; remove it, and a new one is made", path, err)
	case errors.Is(err, ErrInsecure):
		err = fmt.Errorf("%w; it is a secret: where somebody may know it, remove it, "+
			"and a new one is made", err)
	}
	return key, err == nil, err
}

// newResetKey cannot fail: the program ends when the system has no randomness.
func newResetKey() (key [32]byte) {
	_, _ = rand.Read(key[:])
	return key
}

// readFile returns a whole file with which nobody else may do what forbidden says.
// One longer than limit is corrupt.
func readFile(path string, limit int64, forbidden fs.FileMode) ([]byte, error) {
	// Opening something else than a file could block or have an effect.
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("store: %s is not a regular file", path)
	}
	if err := checkMode(path, info, forbidden); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	var content bytes.Buffer
	content.Grow(int(min(info.Size(), limit)) + bytes.MinRead) // for one call of the system
	if _, err := content.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if int64(content.Len()) > limit {
		return nil, corrupt("more than %d bytes", limit)
	}
	return content.Bytes(), nil
}

// replace gives a file new content, in the order that survives a crash at any
// point: write and sync a new file, rename it, sync the directory.
func (s *File) replace(name string, content []byte) error {
	if s.lock == nil {
		return ErrClosed
	}
	err := replaceFile(s.dir, name, content)
	if err == nil {
		err = s.folder.Sync()
	}
	if err != nil {
		return fmt.Errorf("store: write %s: %w", filepath.Join(s.dir, name), err)
	}
	return nil
}

// leftover matches the new file of a write that a crash cut off: the name of the file,
// that to which Forget copies the state too, with a dot before and digits behind.
var leftover = regexp.MustCompile(`^\.(athena\.state(\.[0-9a-f]+\.[0-9]+)?|reset\.key)[0-9]+$`)

func (s *File) removeLeftovers() error {
	entries, err := s.folder.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !leftover.MatchString(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
