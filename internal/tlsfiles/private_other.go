// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package tlsfiles

import "io/fs"

// isPrivate accepts every file: Windows has access lists instead of modes.
func isPrivate(fs.FileInfo) bool { return true }
