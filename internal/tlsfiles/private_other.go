// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package tlsfiles

import "io/fs"

// isPrivate looks at the mode alone, which means little on such a system.
func isPrivate(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }
