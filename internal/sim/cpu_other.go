// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package sim

import "time"

// cpuTime is the time of day, for want of a better measure: only differences
// count.
func cpuTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
