// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package demo

import (
	"errors"
	"io"
)

// Run returns an error: processes cannot be paused and resumed here.
func (d *Options) Run(_, _ io.Writer) error {
	return errors.New("demo needs the signals of a Unix system")
}
