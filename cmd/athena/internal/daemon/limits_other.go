// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package daemon

func openFilesLimit() (uint64, bool) { return 0, false }

// GuardSecrets does nothing: this system has no limit for core dumps.
func GuardSecrets() {}
