// SPDX-License-Identifier: Apache-2.0

// Package demo runs a whole cluster on this machine, with one process per node, a dashboard and
// fault injection.
package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/internal/adminapi"
)

const (
	// maxDemoSize limits the number of processes on one machine.
	maxDemoSize = 25
	// maxDemoJobs is less than the number of campaigns that one node accepts.
	maxDemoJobs = 20
)

// scriptNames are the values of --script.
var scriptNames = []string{"failover", "partition", "rolling"}

// Options holds the options of a demo.
type Options struct {
	Began  time.Time // start time of the process; printed times are relative to it
	Size   int
	Jobs   int
	Length time.Duration // 0 for no limit
	Admin  string
	Script string // one of scriptNames, or empty
}

// Validate returns the first error in the options. Errors use the names of the flags f.
func (d *Options) Validate(f *pflag.FlagSet) error {
	if d.Size < 1 || d.Size > maxDemoSize {
		return fmt.Errorf("--size %d: must be between 1 and %d", d.Size, maxDemoSize)
	}
	if d.Jobs < 0 || d.Jobs > maxDemoJobs {
		return fmt.Errorf("--jobs %d: must be between 0 and %d", d.Jobs, maxDemoJobs)
	}
	if d.Length < 0 {
		return fmt.Errorf("--for %v: must not be negative", d.Length)
	}
	if d.Script != "" && !slices.Contains(scriptNames, d.Script) {
		return fmt.Errorf("--script %q: must be failover, partition or rolling", d.Script)
	}
	if d.Script != "" && d.Size < 3 {
		return fmt.Errorf("--script %s needs --size 3 or more: a smaller cluster survives no failure",
			d.Script)
	}
	if err := adminapi.CheckListen(d.Admin, false); err != nil {
		return fmt.Errorf("%s: %w", settings.Given(f, "admin"), err)
	}
	return nil
}
