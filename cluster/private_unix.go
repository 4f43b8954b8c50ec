// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package cluster

import (
	"io/fs"
	"os"
	"syscall"
)

// isPrivate reports whether nobody has a file but who runs this process, or a group
// that root chose.
func isPrivate(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && private(info.Mode().Perm(), int(stat.Uid), os.Geteuid())
}

// private is the rule that PostgreSQL has for its keys: what root owns, as platforms
// of containers mount their secrets, may be readable by a group.
func private(mode fs.FileMode, owner, user int) bool {
	if owner == 0 && user != 0 {
		return mode&0o037 == 0
	}
	return mode&0o077 == 0
}
