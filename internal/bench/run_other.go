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
	return errors.New("bench: only Linux is supported: it needs its clock and /proc")
}
