// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bench

import (
	"context"
	"errors"
	"io"
)

// Child reports that no process is a node of a measurement here.
func Child() (is bool, err error) { return false, nil }

// Run says that nothing can be measured here.
func Run(context.Context, string, Options, io.Writer) error {
	return errors.New("bench: measures on Linux alone: it needs the clock and the /proc of Linux")
}
