// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
)

// checkSystem returns an error, because package store has not been verified on the file systems of
// these systems. The functions below are never called.
func checkSystem() error {
	return fmt.Errorf("store: data directories on %s: %w; use the memory store",
		runtime.GOOS, errors.ErrUnsupported)
}

func checkWritable(string) error { return nil }

func checkMode(string, fs.FileInfo, fs.FileMode) error { return nil }

func checkDirOwner(string, fs.FileInfo) error { return nil }

func checkFileOwner(_ string, _, _ fs.FileInfo) error { return nil }

func openFolder(string) (Folder, error) { return nil, errors.ErrUnsupported }

func ownedByUser(fs.FileInfo) bool { return false }

func chownToDirOwner(Handle, fs.FileInfo) error { return nil }
