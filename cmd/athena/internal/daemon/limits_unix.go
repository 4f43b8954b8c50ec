// SPDX-License-Identifier: Apache-2.0

//go:build unix

package daemon

import "golang.org/x/sys/unix"

// openFilesLimit returns this process's limit on open files, or false if it is unknown. The Go
// runtime has raised the soft limit to the hard limit.
func openFilesLimit() (uint64, bool) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil //nolint:unconvert // FreeBSD has an int64
}

// GuardSecrets keeps the secrets of this process out of core dumps. A limit of one byte, unlike 0,
// also makes Linux start no program that would read the dump.
func GuardSecrets() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &limit) == nil {
		limit.Cur = min(1, limit.Max)
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &limit) // lowering a limit cannot fail
	}
}
