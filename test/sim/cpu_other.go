// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package sim

import "time"

// cpuTime returns the time of day because the CPU time is not available. Callers use only
// differences.
func cpuTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
