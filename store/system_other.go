// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// checkLock refuses: no file system of these systems is known to keep what
// package store promises.
func checkLock(string) error {
	return fmt.Errorf("store: a directory on %s: %w; use the memory store",
		runtime.GOOS, errors.ErrUnsupported)
}

func lockFile(path string) (*os.File, error) { return nil, checkLock(path) }

func mayUse(string) error { return nil }

func checkMode(string, fs.FileInfo, fs.FileMode) error { return nil }

func replaceFile(string, string, []byte) error { return errors.ErrUnsupported }
