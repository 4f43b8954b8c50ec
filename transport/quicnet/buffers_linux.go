// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"fmt"
	"net"
	"syscall"
)

// wantedBufferBytes is the size that QUIC requests from the kernel. Linux includes its own
// overhead and reports twice what sysctl allows.
const wantedBufferBytes = 7 << 20

// checkBuffers returns an error if the buffers of a socket are smaller than QUIC requests.
// It returns nil if their size is not known.
func checkBuffers(conn net.PacketConn) error {
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return nil
	}
	raw, err := udp.SyscallConn()
	if err != nil {
		return nil
	}
	size := wantedBufferBytes
	for _, option := range []int{syscall.SO_RCVBUF, syscall.SO_SNDBUF} {
		control := func(fd uintptr) {
			if n, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, option); err == nil {
				size = min(size, n)
			}
		}
		if raw.Control(control) != nil {
			return nil
		}
	}
	if size >= wantedBufferBytes {
		return nil
	}
	return fmt.Errorf("quicnet: the socket has buffers of %d KiB, but QUIC needs %d: "+
		"bursts of events may lose packets and slow down; allow larger buffers with: "+
		"sysctl -w net.core.rmem_max=%[3]d net.core.wmem_max=%[3]d",
		size>>10, wantedBufferBytes>>10, wantedBufferBytes)
}
