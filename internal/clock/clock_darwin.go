// SPDX-License-Identifier: Apache-2.0

package clock

import "golang.org/x/sys/unix"

// bootClock includes the time during which the machine sleeps.
const bootClock = unix.CLOCK_MONOTONIC_RAW
