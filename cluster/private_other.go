// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package cluster

import "io/fs"

// isPrivate goes by the mode, which says little on such a system.
func isPrivate(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }
