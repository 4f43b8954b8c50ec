// SPDX-License-Identifier: Apache-2.0

package clock

import "golang.org/x/sys/unix"

// bootClock includes the time during which the machine is suspended; CLOCK_MONOTONIC does not.
const bootClock = unix.CLOCK_BOOTTIME
