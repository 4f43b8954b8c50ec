// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package tlsnet

import "syscall"

// sendBytes writes to a socket.
func sendBytes(fd int, b []byte, _ bool) (int, error) { return syscall.Write(fd, b) }
