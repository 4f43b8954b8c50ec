// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package tlsfiles

import "io/fs"

// isPrivate checks only the mode, which means little on these systems.
func isPrivate(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }
