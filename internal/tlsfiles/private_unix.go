// SPDX-License-Identifier: Apache-2.0

//go:build unix

package tlsfiles

import (
	"io/fs"
	"os"
	"syscall"
)

// isPrivate reports whether only the user of this process can read a file. If the file belongs to
// root, a group may also read it.
func isPrivate(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && isPrivateMode(info.Mode().Perm(), int(stat.Uid), os.Geteuid())
}

// isPrivateMode applies the rule of PostgreSQL for its keys: a group may read a file that
// belongs to root, because container platforms mount secrets that way.
func isPrivateMode(mode fs.FileMode, owner, user int) bool {
	if owner == 0 && user != 0 {
		return mode&0o037 == 0
	}
	return mode&0o077 == 0
}
