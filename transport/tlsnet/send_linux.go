// SPDX-License-Identifier: Apache-2.0

package tlsnet

import "golang.org/x/sys/unix"

// sendBytes writes to a socket. If more is true, the kernel waits for the next write before it
// sends a packet that is not full.
func sendBytes(fd int, b []byte, more bool) (int, error) {
	flags := unix.MSG_NOSIGNAL
	if more {
		flags |= unix.MSG_MORE
	}
	return unix.SendmsgN(fd, b, nil, nil, flags)
}
