// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bench

import (
	"context"
	"errors"
	"io"
)

// Child returns false because measurements do not support this system.
func Child() (is bool, err error) { return false, nil }

// Run returns an error because measurements do not support this system.
func Run(context.Context, string, Options, io.Writer) error {
	return errors.New("bench: runs only on Linux: it needs the Linux clock and /proc")
}
