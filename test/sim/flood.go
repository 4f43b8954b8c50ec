// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// flood counts the messages that a process has sent in the current window.
type flood struct {
	since int64
	count int
}

// maxFlood bounds the messages that a process may send to another process within one
// HeartbeatInterval. Alignment and keep-alive must not trigger each other in a loop (protocol.md
// section 2).
const maxFlood = 200

// allowMore permits additional messages, the replies to queued input, in the window that
// begins now.
func (f *flood) allowMore(now int64, more int) { f.since, f.count = now, -more }

func (f *flood) isFlood(now int64, window time.Duration, processes int) bool {
	if now-f.since >= int64(window) {
		f.since, f.count = now, 0
	}
	f.count++
	return f.count > maxFlood*processes
}
