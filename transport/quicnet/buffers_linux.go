// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"fmt"
	"net"
	"syscall"
)

// wantedBufferBytes is what QUIC asks the kernel for. Linux counts its own
// overhead in and shows twice what sysctl allows.
const wantedBufferBytes = 7 << 20

// smallBuffers says that the kernel gave a socket less than QUIC asked for; nil
// when it did not, and where that cannot be known.
func smallBuffers(conn net.PacketConn) error {
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
	return fmt.Errorf("quicnet: the socket has buffers of %d KiB, and QUIC wants %d: "+
		"bursts of events may lose packets and slow down; allow more with: "+
		"sysctl -w net.core.rmem_max=%[3]d net.core.wmem_max=%[3]d",
		size>>10, wantedBufferBytes>>10, wantedBufferBytes)
}
