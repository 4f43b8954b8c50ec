// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package sim

import (
	"runtime"
	"time"
)

var began = time.Now()

// cpuTime takes all cores for busy, for want of a better measure.
func cpuTime() time.Duration { return time.Since(began) * time.Duration(runtime.GOMAXPROCS(0)) }
