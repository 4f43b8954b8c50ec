// SPDX-License-Identifier: Apache-2.0

//go:build unix

package tlsnet

import (
	"errors"
	"syscall"
)

const canTryWrite = true

// tryWrite writes as much as the kernel has room for, and returns the number of bytes.
func tryWrite(raw syscall.RawConn, b []byte) (n int, err error) {
	outer := raw.Write(func(fd uintptr) bool {
		for n < len(b) {
			var wrote int
			wrote, err = syscall.Write(int(fd), b[n:])
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if errors.Is(err, syscall.EAGAIN) {
				err = nil
				break
			}
			if err != nil {
				break
			}
			n += wrote
		}
		return true // do not wait for room
	})
	if outer != nil {
		return n, outer
	}
	return n, err
}
