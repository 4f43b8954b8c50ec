// SPDX-License-Identifier: Apache-2.0

package clock

import "golang.org/x/sys/unix"

// bootClock is a clock of the system that includes sleep.
const bootClock = unix.CLOCK_MONOTONIC_RAW
