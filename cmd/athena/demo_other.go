// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
)

// newDemo stands for the demo where processes cannot be paused and resumed.
func newDemo(time.Time) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "run a whole cluster on this machine (on Unix systems)",
		Args:  cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("demo needs the signals of a Unix system")
		},
	}
}
