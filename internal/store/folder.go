// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// folder is the directory of a store. Every file in it is opened relative to its
// descriptor, without following links, and checked by the descriptor of the file: a user
// who may write to the directory, or to one above it, cannot lead a process of root to a
// file elsewhere.
type folder struct {
	path string      // for messages
	file *os.File    // the directory, opened once; also to sync, list and lock it
	info fs.FileInfo // of file
	// spare is a descriptor that create gives up when the process may open no more files.
	spare *os.File
}

// openFolder opens a directory. It refuses one that belongs to another user, unless the
// process is root's, and one that others may write to.
func openFolder(path string) (*folder, error) {
	file, err := openDirectory(path)
	if err != nil {
		return nil, fmt.Errorf("store: open the directory: %w", err)
	}
	d := &folder{path: path, file: file}
	if d.info, err = file.Stat(); err != nil {
		err = fmt.Errorf("store: %w", err)
	} else if err = checkFolderOwner(path, d.info); err == nil {
		err = checkMode(path, d.info, othersWrite)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return d, nil
}

// closeToOthers takes away what other users may do with a directory of this user: one who
// may read it could lock it, and so keep the next process from starting.
func (d *folder) closeToOthers() error {
	mode := d.info.Mode().Perm()
	if mode&0o077 == 0 || !isOwn(d.info) {
		return nil
	}
	if err := d.file.Chmod(mode &^ 0o077); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// holdSpare opens the spare descriptor if it is missing. If no descriptor is free now, one
// may be at the next call.
func (d *folder) holdSpare() {
	if d.spare == nil {
		d.spare, _ = openAt(d.file, ".", os.O_RDONLY)
	}
}

func (d *folder) close() error {
	var spare error
	if d.spare != nil {
		spare = d.spare.Close()
	}
	return errors.Join(spare, d.file.Close())
}

// pathOf is the path of a file, for messages.
func (d *folder) pathOf(name string) string { return filepath.Join(d.path, name) }

// openFile opens a file that exists. It refuses all but a regular file without another name,
// which belongs to the owner of the directory and whose mode has no bit of forbidden.
func (d *folder) openFile(name string, flag int, forbidden fs.FileMode) (*os.File, error) {
	f, err := openAt(d.file, name, flag)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && isSpecial(d.file, name) {
			return nil, fmt.Errorf("store: %s is not a regular file", d.pathOf(name))
		}
		do := "open"
		if flag != os.O_RDONLY {
			do = "write to"
		}
		return nil, fmt.Errorf("store: %w", &fs.PathError{Op: do, Path: d.pathOf(name), Err: err})
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = fmt.Errorf("store: %w", err)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("store: %s is not a regular file", d.pathOf(name))
	default:
		if err = checkFileOwner(d.pathOf(name), info, d.info); err == nil {
			err = checkMode(d.pathOf(name), info, forbidden)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// createFile makes a file that does not exist yet, for the owner of the directory. If the
// process may open no more files, it gives up the spare descriptor: a node that cannot
// save has to stop.
func (d *folder) createFile(name string) (*os.File, error) {
	flag := os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := openAt(d.file, name, flag)
	if isExhausted(err) && d.spare != nil {
		_ = d.spare.Close()
		d.spare = nil
		f, err = openAt(d.file, name, flag)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: d.pathOf(name), Err: err}
	}
	if err := giveAway(f, d.info); err != nil {
		return nil, errors.Join(err, f.Close(), removeAt(d.file, name))
	}
	return f, nil
}

func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// readFile returns a whole file. One longer than limit is corrupt.
func (d *folder) readFile(name string, limit int64, forbidden fs.FileMode) ([]byte, error) {
	f, err := d.openFile(name, os.O_RDONLY, forbidden)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var content bytes.Buffer
	content.Grow(int(min(info.Size(), limit)) + bytes.MinRead) // for one call of the system
	if _, err := content.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if int64(content.Len()) > limit {
		return nil, corruptError("more than %d bytes", limit)
	}
	return content.Bytes(), nil
}

// replaceFile gives a file new content, in the order that survives a crash at any point: write
// and sync a new file, rename it, sync the directory. It returns the new file, open.
func (d *folder) replaceFile(name string, content []byte) (*os.File, error) {
	f, err := d.writeAndRename(name, content)
	if err != nil {
		return nil, fmt.Errorf("store: write %s: %w", d.pathOf(name), err)
	}
	return f, nil
}

func (d *folder) writeAndRename(name string, content []byte) (*os.File, error) {
	temporary := fmt.Sprintf(".%s%d", name, rand.Uint64())
	f, err := d.createFile(temporary)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = renameAt(d.file, temporary, name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), removeAt(d.file, temporary))
	}
	if err := d.file.Sync(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// leftover matches the new file of a write that a crash cut off: the name of the file,
// that to which Forget copies the state too, with a dot before and digits behind.
var leftover = regexp.MustCompile(`^\.(athena\.state(\.[0-9a-f]+\.[0-9]+)?|reset\.key)[0-9]+$`)

func (d *folder) removeLeftovers() error {
	entries, err := d.file.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !leftover.MatchString(e.Name()) {
			continue
		}
		if err := removeAt(d.file, e.Name()); err != nil {
			return &fs.PathError{Op: "remove", Path: d.pathOf(e.Name()), Err: err}
		}
	}
	return nil
}

// CheckFolder says what keeps this process from making files in dir, or dir itself
// and what is missing above it. It makes nothing, so that a disk which is full shows
// only later.
func CheckFolder(dir string) error {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return mayUse(dir)
	case err == nil:
		return fmt.Errorf("%s is not a directory: name another path", dir)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s is a link to what is not there: make that, or name another path", dir)
	}
	return CheckFolder(filepath.Dir(dir))
}

// inspectFolder finds what is wrong with a directory before anything in it is touched.
func inspectFolder(dir string) error {
	if dir == "" {
		return errors.New("store: no directory given")
	}
	if err := checkSystem(); err != nil {
		return err
	}
	if err := CheckFolder(dir); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// makeDir makes a directory and the ones above it, and syncs each entry: after
// a crash the store must not seem to have never been there.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	above, err := openDirectory(parent)
	if err != nil {
		return err
	}
	return errors.Join(above.Sync(), above.Close())
}
