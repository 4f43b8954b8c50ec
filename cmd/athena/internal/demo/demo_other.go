// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package demo

import (
	"errors"
	"io"
)

// Run returns an error: this system cannot pause and resume processes.
func (d *Options) Run(_, _ io.Writer) error {
	return errors.New("demo runs only on Unix systems, where it can pause and resume processes")
}
