// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// flood counts what a process sent in the present window.
type flood struct {
	since int64
	count int
}

// maxFlood bounds the messages of a process to each of the others within one
// HeartbeatInterval: alignment and keep-alive must never chase each other at
// network speed (protocol.md section 2).
const maxFlood = 200

// allowMore lets a process send so many messages more in the window that begins:
// it answers what waited for it.
func (f *flood) allowMore(now int64, more int) { f.since, f.count = now, -more }

func (f *flood) isFlood(now int64, window time.Duration, processes int) bool {
	if now-f.since >= int64(window) {
		f.since, f.count = now, 0
	}
	f.count++
	return f.count > maxFlood*processes
}
