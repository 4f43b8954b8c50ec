// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkSystem accepts these systems.
func checkSystem() error { return nil }

// checkMode refuses a file or directory with one of the forbidden permissions.
func checkMode(path string, info fs.FileInfo, forbidden fs.FileMode) error {
	mode, want := info.Mode().Perm(), "0600"
	if mode&forbidden == 0 {
		return nil
	}
	if info.IsDir() {
		want = "0700"
	}
	return fmt.Errorf("%w: %s has mode %04o; run chmod %s %s", ErrInsecure, path, mode, want, path)
}

// checkDirOwner refuses a directory of another user. Root may use any directory, to recover the
// store of a service.
func checkDirOwner(path string, info fs.FileInfo) error {
	owner, user := statOf(info).Uid, os.Geteuid()
	if user == 0 || int(owner) == user {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to user %d, but this process runs as user %d; start it as "+
		"user %[3]d, or give it another directory", ErrInsecure, path, owner, user)
}

// checkFileOwner refuses a file whose owner differs from that of its directory, and a file with a
// second name. Either may have been moved or linked into the directory to make root overwrite it. A
// file with no name is accepted: it was replaced after it was opened.
func checkFileOwner(path string, info, dir fs.FileInfo) error {
	file, owner := statOf(info), statOf(dir).Uid
	switch {
	case file.Nlink > 1: // check this first: the advice below would change the owner of a linked file
		return fmt.Errorf("%w: %s has %d names (hard links); remove the others, or replace the "+
			"file with a copy", ErrInsecure, path, file.Nlink)
	case file.Uid != owner:
		return fmt.Errorf("%w: %s belongs to user %d, but its directory to user %d; if it is a file "+
			"of the store, run chown -h %[4]d %[2]s", ErrInsecure, path, file.Uid, owner)
	}
	return nil
}

// ownedByUser reports whether a file belongs to the user of this process.
func ownedByUser(info fs.FileInfo) bool { return int(statOf(info).Uid) == os.Geteuid() }

func statOf(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// checkWritable returns an error if this process cannot list a directory or create files in it.
func checkWritable(dir string) error {
	err := unix.Faccessat(unix.AT_FDCWD, dir, unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	if err != nil {
		return &fs.PathError{Op: "write to", Path: dir, Err: err}
	}
	return nil
}

// ignoreEINTR repeats a system call that a signal interrupted, as package os does.
func ignoreEINTR(do func() error) error {
	for {
		if err := do(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// hostFolder is a directory of this machine, and hostFile a file of one.
type (
	hostFolder struct{ *os.File }
	hostFile   struct{ *os.File }
)

// openFolder opens a directory. It fails if the path is anything else, such as a pipe, which would
// block until its other end is opened.
func openFolder(path string) (Folder, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return hostFolder{f}, nil
}

// Open opens a file. It does not wait for the other end of a pipe.
func (d hostFolder) Open(name string, flag int) (Handle, error) {
	flag |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd := -1
	err := ignoreEINTR(func() (err error) {
		fd, err = unix.Openat(int(d.Fd()), name, flag, 0o600)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return hostFile{os.NewFile(uintptr(fd), filepath.Join(d.Name(), name))}, nil
}

// IsSpecial implements Folder.
func (d hostFolder) IsSpecial(name string) bool {
	var at unix.Stat_t
	err := unix.Fstatat(int(d.Fd()), name, &at, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && at.Mode&unix.S_IFMT != unix.S_IFREG
}

// IsAt implements Folder.
func (d hostFolder) IsAt(name string, f Handle) bool {
	var at, file unix.Stat_t
	err := errors.Join(unix.Fstatat(int(d.Fd()), name, &at, unix.AT_SYMLINK_NOFOLLOW),
		unix.Fstat(int(f.(hostFile).Fd()), &file))
	return err == nil && at.Dev == file.Dev && at.Ino == file.Ino
}

// Rename implements Folder.
func (d hostFolder) Rename(from, to string) error {
	fd := int(d.Fd())
	return ignoreEINTR(func() error { return unix.Renameat(fd, from, fd, to) })
}

// Remove implements Folder.
func (d hostFolder) Remove(name string) error {
	return ignoreEINTR(func() error { return unix.Unlinkat(int(d.Fd()), name, 0) })
}

// Lock implements Folder.
func (d hostFolder) Lock() error { return lockFile(d.File) }

// Lock implements Handle.
func (f hostFile) Lock() error { return lockFile(f.File) }

func lockFile(f *os.File) error {
	return ignoreEINTR(func() error {
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
}

// chownToDirOwner gives a file that root has created to the owner of its directory.
// Otherwise a node that runs as that user could not start again.
func chownToDirOwner(f Handle, dir fs.FileInfo) error {
	owner := statOf(dir)
	if os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
