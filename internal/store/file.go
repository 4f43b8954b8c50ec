// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	stateName = "athena.state"
	lockName  = "athena.lock"
	keyName   = "reset.key"

	maxKeyBytes = 128 // of the key file; a sound one has 65

	// What group and others may not do: write anything that the store relies on,
	// and have a secret at all. A user who may read a directory may lock it.
	othersWrite fs.FileMode = 0o022
	othersRead  fs.FileMode = 0o044
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
	mu     sync.Mutex
	folder *folder
	lock   *os.File // nil once closed
	// loaded says that Load understood the state file or found none. Until
	// then Save must not replace it.
	loaded bool
	// wrote is the state file as this File has written it, until a write fails, and state
	// that file, nil without one. It stays open: a process that may open no more files
	// can still save.
	wrote image
	state *os.File
}

// OpenFile opens the store in dir, which is made, with mode 0700, when it does
// not exist. It holds the store until Close. Errors wrap ErrLocked, ErrInsecure
// or the error of the file system. A process of root leaves everything to the owner of dir;
// any other process must be the owner.
func OpenFile(dir string) (*File, error) {
	if err := inspectFolder(dir); err != nil {
		return nil, err
	}
	dir = filepath.Clean(dir)
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("store: make the directory: %w", err)
	}
	folder, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	s := &File{folder: folder}
	if s.lock, err = folder.takeLock(); err != nil {
		return nil, errors.Join(err, folder.close())
	}
	if err := folder.closeToOthers(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := folder.removeLeftovers(); err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), s.Close())
	}
	folder.holdSpare()
	return s, nil
}

// takeLock locks the directory, and the lock file in it. The directory, because a lock
// file can be deleted while a process holds it, and the next process would lock a new one.
// The file, because it names the process, earlier versions lock nothing else, and a
// network file system shares only locks of files with other machines.
func (d *folder) takeLock() (*os.File, error) {
	locked := lockFile(d.file)
	if locked != nil && !errors.Is(locked, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("store: lock %s: %w", d.path, locked)
	}
	f, err := d.openFile(lockName, os.O_RDWR, 0)
	if locked != nil {
		err := d.lockedBy(f)
		if mode := d.info.Mode().Perm(); mode&othersRead != 0 {
			err = fmt.Errorf("%w; with mode %04o other users can lock it too, run chmod 0700 %s",
				err, mode, d.path)
		}
		return nil, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = d.createFile(lockName); err != nil {
			err = fmt.Errorf("store: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	err = lockFile(f)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, d.lockedBy(f)
	case err != nil:
		err = fmt.Errorf("store: lock %s: %w", d.pathOf(lockName), err)
	default:
		if err = f.Truncate(0); err == nil {
			_, err = fmt.Fprintln(f, os.Getpid())
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockedBy is the error for a directory that another process uses, and closes the lock
// file, which names that process; nil without one.
func (d *folder) lockedBy(f *os.File) error {
	holder := "another process"
	if f != nil {
		b, _ := io.ReadAll(io.LimitReader(f, 20))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			holder = fmt.Sprintf("process %d", pid)
		}
		_ = f.Close()
	}
	return fmt.Errorf("%w: %s belongs to %s; one process has one directory, stop that one "+
		"or use another", ErrLocked, d.path, holder)
}

// Close ends the use of the store; a second call does nothing.
func (s *File) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	err := errors.Join(s.closeState(), s.folder.close(), s.lock.Close())
	s.lock = nil
	return err
}

func (s *File) closeState() error {
	if s.state == nil {
		return nil
	}
	err := s.state.Close()
	s.wrote, s.state = image{}, nil
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
	c, known, err := s.folder.loadState()
	s.loaded, s.wrote = err == nil, image{}
	return c, known, err
}

// Peek returns what Load would return of the store in dir, also while a node uses
// it: it takes no lock, and makes and changes nothing. Of what a running node saves
// it sees all or nothing. Its errors are those of OpenFile, but for ErrLocked, of Load
// and of ResetKey.
func Peek(dir string) (Content, bool, error) {
	if err := inspectFolder(dir); err != nil {
		return Content{}, false, err
	}
	d, err := openFolder(filepath.Clean(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return Content{}, false, nil
	}
	if err != nil {
		return Content{}, false, err
	}
	defer d.close()
	switch lock, err := d.openFile(lockName, os.O_RDWR, 0); {
	case err == nil:
		_ = lock.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return Content{}, false, err
	}
	c, known, err := d.loadState()
	for n := 0; n < 2 && errors.Is(err, ErrCorrupt); n++ {
		c, known, err = d.loadState() // it may have been read while it was written
	}
	if err != nil {
		return c, false, err
	}
	if _, _, err := d.readKey(); err != nil {
		return c, false, err
	}
	return c, known, nil
}

// loadState reads the state file of a directory; false where there is none.
func (d *folder) loadState() (Content, bool, error) {
	path := d.pathOf(stateName)
	content, err := d.readFile(stateName, maxStateBytes, othersWrite)
	if errors.Is(err, fs.ErrNotExist) {
		return Content{}, false, nil
	}
	var c Content
	if err == nil {
		c, err = parseContent(content)
	}
	switch {
	case errors.Is(err, ErrCorrupt):
		err = fmt.Errorf("%s: %w; while a majority of the nodes still have their files, move it away "+
			"on this node only and start again, a seed with JoinOnly (--join-only) until it has joined: "+
			"the node joins as a new member; never put an old copy in its place", path, err)
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
	if added, err := s.addEntry(c); added || err != nil {
		return err
	}
	content, whole, err := formatContent(c)
	if err != nil {
		return fmt.Errorf("store: nothing was saved: %w", err)
	}
	// The descriptor of the old file is free for the new one.
	if err := s.closeState(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if s.state, err = s.folder.replaceFile(stateName, content); err != nil {
		return err
	}
	s.wrote = whole
	s.folder.holdSpare()
	return nil
}

// addEntry writes c into the room of the state file; false where there is none, or no file
// that this File wrote.
func (s *File) addEntry(c Content) (bool, error) {
	before := s.wrote
	s.wrote = image{} // what a write that fails leaves is not gone on with
	if before.size == 0 {
		return false, nil
	}
	entry, after, err := before.addContent(c)
	if err != nil {
		s.wrote = before
		return false, fmt.Errorf("store: nothing was saved: %w", err)
	}
	if entry == nil {
		return false, nil
	}
	written, err := s.overwriteRoom(before, entry)
	if err != nil {
		return false, fmt.Errorf("store: write %s: %w", s.folder.pathOf(stateName), err)
	}
	if written {
		s.wrote = after
	}
	return written, nil
}

// overwriteRoom writes an entry into the room of the state file and syncs it; false where
// the file is not as it was left.
func (s *File) overwriteRoom(as image, entry []byte) (bool, error) {
	info, err := s.state.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() != int64(as.size) || !isAt(s.folder.file, stateName, s.state) {
		return false, nil
	}
	if _, err = s.state.WriteAt(entry, int64(as.end)); err == nil {
		err = s.state.Sync()
	}
	return err == nil, err
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
	key, known, err := s.folder.readKey()
	if err != nil || known {
		return key, err
	}
	key = newResetKey()
	f, err := s.folder.replaceFile(keyName, fmt.Appendf(nil, "%x\n", key))
	if err != nil {
		return key, err
	}
	return key, f.Close()
}

// readKey reads the key file of a directory; false where there is none.
func (d *folder) readKey() (key [32]byte, known bool, err error) {
	path := d.pathOf(keyName)
	content, err := d.readFile(keyName, maxKeyBytes, othersAll)
	if errors.Is(err, fs.ErrNotExist) {
		return key, false, nil
	}
	if err == nil {
		b, bad := hex.DecodeString(strings.TrimSuffix(string(content), "\n"))
		if bad != nil || len(b) != len(key) {
			err = corruptError("want %d hexadecimal digits", 2*len(key))
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
