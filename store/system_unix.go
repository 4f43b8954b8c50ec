// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// checkMode refuses what has a bit of forbidden set.
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

// mayUse says whether this process may list a directory, and make files in it.
func mayUse(dir string) error {
	return may("write to", dir, unix.R_OK|unix.W_OK|unix.X_OK)
}

// may asks the system, for the user that the process acts as.
func may(do, path string, mode uint32) error {
	err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
	if err != nil {
		return &fs.PathError{Op: do, Path: path, Err: err}
	}
	return nil
}

// checkLock says what lockFile would of a file at path, but not whether it is locked.
func checkLock(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("store: %s is not a regular file", path)
	}
	if err == nil {
		err = may("write to", path, unix.R_OK|unix.W_OK)
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// lockFile takes the lock at path and writes the process id into it. The
// system lets go of the lock when the file is closed or the process ends. The
// file stays: removing it would let two processes lock two files of one name.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: %s belongs to %s; one process has one directory, stop that one "+
			"or use another", ErrLocked, filepath.Dir(path), holder(f))
	} else if err != nil {
		err = fmt.Errorf("store: lock %s: %w", path, err)
	} else if err = f.Truncate(0); err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
		err = errors.Join(err, giveAway(f, filepath.Dir(path)))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// holder names the process that has the lock, as far as the file tells.
func holder(f *os.File) string {
	b, _ := io.ReadAll(io.LimitReader(f, 20))
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

// replaceFile writes and syncs a new file in dir and renames it. The library
// does not sync the directory, which is left to the caller.
func replaceFile(dir, name string, content []byte) error {
	f, err := renameio.TempFile(dir, filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = giveAway(f.File, dir)
	}
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	return errors.Join(err, f.Cleanup()) // after a success it does nothing
}

// giveAway makes a file that root wrote one of the owner of its directory: a node that
// runs as another user could not start again after what root did for it.
func giveAway(f *os.File, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
