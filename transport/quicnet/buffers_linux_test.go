// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"strings"
	"testing"
)

// TestSmallBuffersComeWithAdvice requests a small buffer, so that the kernel provides less than
// QUIC needs.
func TestSmallBuffersComeWithAdvice(t *testing.T) {
	socket, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer socket.Close()
	if err := socket.SetReadBuffer(64 << 10); err != nil {
		t.Fatalf("SetReadBuffer: %v", err)
	}
	err = checkBuffers(socket)
	if err == nil || !strings.Contains(err.Error(), "sysctl -w net.core.rmem_max=7340032") {
		t.Errorf("a socket with 64 KiB: got %v, want advice for sysctl", err)
	}
	if err := checkBuffers(&brokenSocket{}); err != nil {
		t.Errorf("no UDP socket: got %v, want nil", err)
	}
}
