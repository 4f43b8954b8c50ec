// SPDX-License-Identifier: Apache-2.0

//go:build unix

package daemon

import "golang.org/x/sys/unix"

// openFilesLimit returns how many files this process may have open; false if the system
// does not tell. Go has raised the soft limit to the hard one.
func openFilesLimit() (uint64, bool) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil
}
