// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package tlsfiles

import (
	"io/fs"
	"os"
	"syscall"
)

// isPrivate reports whether only the user of this process, or a group that root chose, can
// read a file.
func isPrivate(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && isPrivateMode(info.Mode().Perm(), int(stat.Uid), os.Geteuid())
}

// isPrivateMode applies PostgreSQL's rule for its keys: a file of root may be readable by a
// group, because container platforms mount secrets like that.
func isPrivateMode(mode fs.FileMode, owner, user int) bool {
	if owner == 0 && user != 0 {
		return mode&0o037 == 0
	}
	return mode&0o077 == 0
}
