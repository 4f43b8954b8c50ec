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

// directory is the directory of a store. Its files are opened relative to its descriptor, without
// following links, and are checked through their own descriptors. So a user who can write to the
// directory or to a parent cannot make a process of root use a file elsewhere.
type directory struct {
	path   string      // for messages
	folder Folder      // opened once
	info   fs.FileInfo // describes folder
	// spare is closed by createFile if the process has reached its limit of open files.
	spare Handle
}

// openStoreDir opens a directory. It refuses a directory that other users may write to. It refuses
// a directory of another user, unless the process runs as root.
func openStoreDir(path string) (*directory, error) {
	folder, err := openFolder(path)
	if err != nil {
		return nil, fmt.Errorf("store: open the directory: %w", err)
	}
	return checkFolder(path, folder)
}

// checkFolder returns a directory after the checks of openStoreDir, or closes it.
func checkFolder(path string, folder Folder) (d *directory, err error) {
	d = &directory{path: path, folder: folder}
	if d.info, err = folder.Stat(); err != nil {
		err = fmt.Errorf("store: %w", err)
	} else if err = checkDirOwner(path, d.info); err == nil {
		err = checkMode(path, d.info, othersWrite)
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return d, nil
}

// restrictMode removes the permissions of other users on a directory of this user. Otherwise a user
// who can read the directory could lock it, and the node could not start.
func (d *directory) restrictMode() error {
	mode := d.info.Mode().Perm()
	if mode&0o077 == 0 || !ownedByUser(d.info) {
		return nil
	}
	return d.folder.Chmod(mode &^ 0o077)
}

// holdSpare opens the spare descriptor if it is missing. If this fails, a later call may succeed.
func (d *directory) holdSpare() {
	if d.spare == nil {
		d.spare, _ = d.folder.Open(".", os.O_RDONLY)
	}
}

func (d *directory) close() error {
	var spare error
	if d.spare != nil {
		spare = d.spare.Close()
	}
	return errors.Join(spare, d.folder.Close())
}

// pathOf returns the path of a file, for messages.
func (d *directory) pathOf(name string) string { return filepath.Join(d.path, name) }

// openFile opens an existing file. It must be a regular file with a single name that belongs to the
// owner of the directory. Its mode must not contain any of the forbidden permissions.
func (d *directory) openFile(name string, flag int, forbidden fs.FileMode) (Handle, error) {
	f, err := d.folder.Open(name, flag)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && d.folder.IsSpecial(name) {
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

// createFile creates a file for the owner of the directory. If the process has reached its
// limit of open files, it first closes the spare descriptor: a node that cannot save must
// stop.
func (d *directory) createFile(name string) (Handle, error) {
	flag := os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := d.folder.Open(name, flag)
	if isExhausted(err) && d.spare != nil {
		_ = d.spare.Close()
		d.spare = nil
		f, err = d.folder.Open(name, flag)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: d.pathOf(name), Err: err}
	}
	if err := chownToDirOwner(f, d.info); err != nil {
		return nil, errors.Join(err, f.Close(), d.folder.Remove(name))
	}
	return f, nil
}

func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// readFile reads a file. It returns ErrCorrupt if the file is longer than limit.
func (d *directory) readFile(name string, limit int64, forbidden fs.FileMode) ([]byte, error) {
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
	content.Grow(int(min(info.Size(), limit)) + bytes.MinRead) // large enough for a single read
	if _, err := content.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if int64(content.Len()) > limit {
		return nil, corruptError("more than %d bytes", limit)
	}
	return content.Bytes(), nil
}

// replaceFile replaces a file so that after a crash either the old or the new file exists. It
// writes and syncs a new file, renames it and syncs the directory. It returns the new file, still
// open.
func (d *directory) replaceFile(name string, content []byte) (Handle, error) {
	f, err := d.writeAndRename(name, content)
	if err != nil {
		return nil, fmt.Errorf("store: write %s: %w", d.pathOf(name), err)
	}
	return f, nil
}

func (d *directory) writeAndRename(name string, content []byte) (Handle, error) {
	temporary := fmt.Sprintf(".%s%d", name, rand.Uint64())
	f, err := d.createFile(temporary)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = d.folder.Rename(temporary, name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), d.folder.Remove(temporary))
	}
	if err := d.folder.Sync(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// leftover matches the names of temporary files that a crash in writeAndRename may leave: a dot,
// the name of the final file, and digits. The final file is the state file, a copy by Forget, or
// the key.
var leftover = regexp.MustCompile(`^\.(athena\.state(\.[0-9a-f]+\.[0-9]+)?|reset\.key)[0-9]+$`)

func (d *directory) removeLeftovers() error {
	entries, err := d.folder.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !leftover.MatchString(e.Name()) {
			continue
		}
		if err := d.folder.Remove(e.Name()); err != nil {
			return &fs.PathError{Op: "remove", Path: d.pathOf(e.Name()), Err: err}
		}
	}
	return nil
}

// CheckDirectory returns an error if this process cannot create files in dir, or cannot create dir
// and its missing parents. It creates nothing, so it does not detect a full disk.
func CheckDirectory(dir string) error {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return checkWritable(dir)
	case err == nil:
		return fmt.Errorf("%s is not a directory: use another path", dir)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s is a dangling symbolic link: create its target, or use another path", dir)
	}
	return CheckDirectory(filepath.Dir(dir))
}

// checkStoreDir checks the path and the system before anything is opened or created.
func checkStoreDir(dir string) error {
	if dir == "" {
		return errors.New("store: no directory given")
	}
	if err := checkSystem(); err != nil {
		return err
	}
	if err := CheckDirectory(dir); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// makeDir creates a directory and its parents, and syncs each entry: otherwise a crash could
// make the store disappear.
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
	above, err := openFolder(parent)
	if err != nil {
		return err
	}
	return errors.Join(above.Sync(), above.Close())
}
