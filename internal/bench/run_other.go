// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bench

import (
	"context"
	"errors"
	"io"
)

// Child returns false: no node of a measurement runs on this system.
func Child() (is bool, err error) { return false, nil }

// Run returns an error: this system cannot be measured.
func Run(context.Context, string, Options, io.Writer) error {
	return errors.New("bench: only Linux is supported: it needs its clock and /proc")
}
