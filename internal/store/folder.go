// SPDX-License-Identifier: Apache-2.0

package store

import (
	"io"
	"io/fs"
)

// Folder is the open directory of a store: one of this machine, or one of the disk that package
// crashdisk simulates. Its methods are the system calls relative to a directory. They follow no
// symbolic link.
type Folder interface {
	Open(name string, flag int) (Handle, error)
	Rename(from, to string) error
	Remove(name string) error
	// IsSpecial reports whether a name exists and is not a regular file.
	IsSpecial(name string) bool
	// IsAt reports whether a name refers to an open file.
	IsAt(name string, f Handle) bool
	Stat() (fs.FileInfo, error)
	Sync() error
	Chmod(mode fs.FileMode) error
	ReadDir(n int) ([]fs.DirEntry, error)
	// Lock locks the directory for this process until it is closed or the process ends. The error is
	// EWOULDBLOCK if another process holds the lock.
	Lock() error
	Close() error
}

// Handle is an open file of a Folder.
type Handle interface {
	io.ReadWriteCloser
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Sync() error
	Truncate(size int64) error
	Chown(uid, gid int) error
	Lock() error // like that of Folder
}
