// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package store

import (
	"errors"
	"fmt"
	"runtime"
)

// CheckDeathProof returns an error, because the file systems of other systems than Linux were not
// examined.
func CheckDeathProof(dir string) error {
	return fmt.Errorf("%s: it is not known whether a lock proves on %s that a process has ended: %w",
		dir, runtime.GOOS, errors.ErrUnsupported)
}
