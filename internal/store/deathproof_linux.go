// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// localTypes are the file systems of one machine, by the magic numbers of statfs(2): the kernel
// frees a lock on one of them only when the process that holds it is gone. All others are refused:
// NFS, SMB and cluster file systems also free a lock when they lose a client that may still run,
// and FUSE and 9p may not show a lock to other machines.
var localTypes = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true, unix.RAMFS_MAGIC: true,
	unix.OVERLAYFS_SUPER_MAGIC: true, unix.REISERFS_SUPER_MAGIC: true,
	0x2fc12fc1: true, // ZFS
	0xca451a4e: true, // bcachefs
}

// CheckDeathProof returns an error unless a lock of a directory proves, once it can be taken, that
// the process that held it is gone. If the directory does not exist yet, it checks the parent.
func CheckDeathProof(dir string) error {
	var at unix.Statfs_t
	err := ignoreEINTR(func() error { return unix.Statfs(dir, &at) })
	if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
		return CheckDeathProof(parent)
	}
	if err != nil {
		return &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return checkFileSystem(dir, int64(at.Type)) //nolint:unconvert // int32 on some platforms
}

func checkFileSystem(dir string, kind int64) error {
	if !localTypes[kind] {
		return fmt.Errorf("%s: a lock on this file system (type %#x) does not prove that a process "+
			"has ended: use a directory on a local disk, such as ext4 or XFS", dir, kind)
	}
	return nil
}
