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

	maxKeyBytes = 128 // limit for the key file; a valid one has 65

	// Permissions that group and others must not have: othersWrite on any file that the store relies
	// on, othersAll on a secret, and othersRead on the directory. A user who may read the directory
	// may lock it.
	othersWrite fs.FileMode = 0o022
	othersRead  fs.FileMode = 0o044
	othersAll   fs.FileMode = 0o077
)

var (
	// ErrCorrupt means that a file of the store is damaged. The file is left unchanged.
	ErrCorrupt = errors.New("store: corrupt file")
	// ErrVersion means that this program does not know the format of the state file. The
	// file is left unchanged.
	ErrVersion = errors.New("store: unknown format version")
	// ErrLocked means that another process, or another File in this process, uses the store.
	ErrLocked = errors.New("store: directory is in use")
	// ErrInsecure means that users other than the owner may write a file that the store
	// relies on, or read its secret.
	ErrInsecure = errors.New("store: accessible to users other than its owner")
	// ErrClosed is returned by a File after Close.
	ErrClosed = errors.New("store: closed")
)

// File is a store in its own directory. Its methods may be called concurrently; they block
// for the duration of the disk operation.
type File struct {
	lock Handle // used without mu, so that Probe does not wait for a Save

	mu     sync.Mutex
	closed bool
	dir    *directory
	// loaded is set once Load has read the state file or found that it does not exist. Until then Save
	// must not replace the file.
	loaded bool
	// wrote describes the state file that this File wrote last; it is zero after a failed write.
	wrote image
	// state is the state file that this File wrote last, or nil. It stays open, so that a process
	// without free descriptors can still save.
	state Handle
}

// OpenFile opens the store in dir and locks it until Close. If dir does not exist, it is
// created with mode 0700. This process must run as the owner of dir or as root. If it runs
// as root, all files it creates belong to the owner. Errors wrap ErrLocked, ErrInsecure or
// the error of the file system.
func OpenFile(dir string) (*File, error) {
	if err := checkStoreDir(dir); err != nil {
		return nil, err
	}
	dir = filepath.Clean(dir)
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("store: make the directory: %w", err)
	}
	folder, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("store: open the directory: %w", err)
	}
	return OpenFolder(dir, folder)
}

// OpenFolder opens the store in a folder, which it closes, even if it fails. The path is for
// messages.
func OpenFolder(path string, folder Folder) (*File, error) {
	d, err := checkFolder(path, folder)
	if err != nil {
		return nil, err
	}
	s := &File{dir: d}
	if s.lock, err = d.takeLock(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if err := errors.Join(d.restrictMode(), d.removeLeftovers()); err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), s.Close())
	}
	d.holdSpare()
	return s, nil
}

// takeLock locks the directory and the lock file in it. The lock of the directory is needed because
// a lock file can be deleted while it is locked; the next process would then lock a new file. The
// lock of the file is needed for three reasons. The file names the process. Earlier versions lock
// only the file. Network file systems share only locks of files between machines.
func (d *directory) takeLock() (Handle, error) {
	locked := d.folder.Lock()
	if locked != nil && !errors.Is(locked, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("store: lock %s: %w", d.path, locked)
	}
	f, err := d.openFile(lockName, os.O_RDWR, 0)
	if locked != nil {
		err := d.lockedBy(f)
		if mode := d.info.Mode().Perm(); mode&othersRead != 0 {
			err = fmt.Errorf("%w; its mode %04o also lets other users lock it: run chmod 0700 %s",
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
	err = f.Lock()
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

// lockedBy returns the error for a directory in use. It reads the process id from the lock file
// f, which may be nil, and closes f.
func (d *directory) lockedBy(f Handle) error {
	holder := "another process"
	if f != nil {
		b, _ := io.ReadAll(io.LimitReader(f, 20))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			holder = fmt.Sprintf("process %d", pid)
		}
		_ = f.Close()
	}
	return fmt.Errorf("%w: %s is locked by %s; stop that process, or use another directory",
		ErrLocked, d.path, holder)
}

// Close releases the store. Later calls do nothing.
func (s *File) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.closeState(), s.dir.close(), s.lock.Close())
}

func (s *File) closeState() error {
	if s.state == nil {
		return nil
	}
	err := s.state.Close()
	s.wrote, s.state = image{}, nil
	return err
}

// Load returns the last saved content, or false if nothing was saved. Errors contain the remedy and
// wrap ErrCorrupt, ErrVersion, ErrInsecure, ErrClosed or the error of the file system.
func (s *File) Load() (Content, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Content{}, false, ErrClosed
	}
	c, known, err := s.dir.loadState()
	s.loaded, s.wrote = err == nil, image{}
	return c, known, err
}

// Peek returns the result of Load for the store in dir, even while a node uses the store: Peek
// takes no lock and changes nothing. It sees each Save of a running node completely or not at all.
// Its errors are those of OpenFile (except ErrLocked), Load and ResetKey.
func Peek(dir string) (Content, bool, error) {
	if err := checkStoreDir(dir); err != nil {
		return Content{}, false, err
	}
	d, err := openStoreDir(filepath.Clean(dir))
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
		c, known, err = d.loadState() // a node may have been writing the file while it was read
	}
	if err != nil {
		return c, false, err
	}
	if _, _, err := d.readKey(); err != nil {
		return c, false, err
	}
	return c, known, nil
}

// loadState reads the state file. It returns false if the file does not exist.
func (d *directory) loadState() (Content, bool, error) {
	path := d.pathOf(stateName)
	content, err := d.readFile(stateName, maxStateBytes, othersAll)
	if errors.Is(err, fs.ErrNotExist) {
		return Content{}, false, nil
	}
	var c Content
	if err == nil {
		c, err = parseContent(content)
	}
	switch {
	case errors.Is(err, ErrCorrupt):
		err = fmt.Errorf("%s: %w; start the other nodes first; only if athena leader exits with 0 on "+
			"one of them, move the data directory of this node away and start it with JoinOnly "+
			"(--join-only) until it has joined as a new member; if they find no leader, leave it: "+
			"docs/admin.md, \"Lost data directories\"; never replace the file with an old copy", path, err)
	case errors.Is(err, ErrVersion):
		err = fmt.Errorf("%s: %w", path, err)
	}
	return c, err == nil, err
}

// Save replaces the stored content with c. The caller must not change the states in c afterwards.
// After an error the file is intact and normally contains the old content; the node must not act
// as if c were saved. Save fails unless Load has succeeded first.
func (s *File) Save(c Content) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case !s.loaded:
		return errors.New("store: Save called before a successful Load")
	}
	if added, err := s.addEntry(c); added || err != nil {
		return err
	}
	content, whole, err := formatContent(c, mostRoom)
	if err != nil {
		return fmt.Errorf("store: nothing was saved: %w", err)
	}
	// Close the old file first, which frees its descriptor for the new file.
	if err := s.closeState(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.state, err = s.dir.replaceFile(stateName, content)
	if errors.Is(err, syscall.ENOSPC) {
		content, whole, _ = formatContent(c, leastRoom) // would have failed above
		s.state, err = s.dir.replaceFile(stateName, content)
	}
	if err != nil {
		return err
	}
	s.wrote = whole
	s.dir.holdSpare()
	return nil
}

// addEntry writes c into the room of the state file. It returns false if there is not
// enough room, or if this File has not written the state file.
func (s *File) addEntry(c Content) (bool, error) {
	before := s.wrote
	s.wrote = image{} // nothing is appended after a failed write
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
		return false, fmt.Errorf("store: write %s: %w", s.dir.pathOf(stateName), err)
	}
	if written {
		s.wrote = after
	}
	return written, nil
}

// overwriteRoom writes an entry into the room of the state file and syncs it. It returns false
// if the file has changed since the last write.
func (s *File) overwriteRoom(as image, entry []byte) (bool, error) {
	info, err := s.state.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() != int64(as.size) || !s.dir.folder.IsAt(stateName, s.state) {
		return false, nil
	}
	if _, err = s.state.WriteAt(entry, int64(as.end)); err == nil {
		err = s.state.Sync()
	}
	return err == nil, err
}

// Probe writes the process id to the lock file, which already contains it, and syncs the file. A
// Save does not wait for it and does not depend on its result. It blocks while the disk does not
// answer. The error is that of the file system.
func (s *File) Probe() error {
	_, err := s.lock.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	if err == nil {
		err = s.lock.Sync()
	}
	if err != nil {
		return fmt.Errorf("store: write to %s: %w", s.dir.pathOf(lockName), err)
	}
	return nil
}

// ResetKey returns the key for stateless resets. The first call creates it. Errors wrap
// ErrCorrupt, ErrInsecure, ErrClosed or the error of the file system.
func (s *File) ResetKey() ([32]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return [32]byte{}, ErrClosed
	}
	key, known, err := s.dir.readKey()
	if err != nil || known {
		return key, err
	}
	key = newResetKey()
	f, err := s.dir.replaceFile(keyName, fmt.Appendf(nil, "%x\n", key))
	if err != nil {
		return key, err
	}
	return key, f.Close()
}

// readKey reads the key file. It returns false if the file does not exist.
func (d *directory) readKey() (key [32]byte, known bool, err error) {
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
		err = fmt.Errorf("%s: %w; remove it to create a new one", path, err)
	case errors.Is(err, ErrInsecure):
		err = fmt.Errorf("%w; it is a secret: if others may have read it, remove it to create a new "+
			"one", err)
	}
	return key, err == nil, err
}

// newResetKey cannot fail: rand.Read crashes the program if the system provides no
// randomness.
func newResetKey() (key [32]byte) {
	_, _ = rand.Read(key[:])
	return key
}
