// SPDX-License-Identifier: Apache-2.0

package clock

import "golang.org/x/sys/unix"

// bootClock is the continuous time of the system. It includes sleep.
const bootClock = unix.CLOCK_MONOTONIC_RAW
