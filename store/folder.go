// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

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

// inspect finds what is wrong with a directory before anything in it is touched.
func inspect(dir string) error {
	if dir == "" {
		return errors.New("store: no directory given")
	}
	if err := CheckFolder(dir); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	info, err := os.Stat(dir)
	if err == nil {
		err = checkMode(dir, info, othersWrite)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return checkLock(filepath.Join(dir, lockName))
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
	above, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(above.Sync(), above.Close())
}
