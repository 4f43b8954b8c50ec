// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"sync/atomic"
	"testing"

	"github.com/athena-go/athena/transport"
)

// TestTheHostOfAGoneProcessRefuses checks that the kernel refuses the port only of a
// process that is gone, and that only the connected run is probed.
func TestTheHostOfAGoneProcessRefuses(t *testing.T) {
	a, b := listen(t, secured(t)), listen(t, secured(t))
	a.Notify(b.self.Address, []byte("frame"))
	next(t, b.frames[transport.System], "frame")
	var gone atomic.Bool
	refused := make(chan struct{}, 10)
	note := func() {
		if !gone.Load() {
			t.Error("refused while the process is there")
		}
		refused <- struct{}{}
	}
	a.Probe(b.self, note)
	gone.Store(true)
	if err := b.socket.Close(); err != nil {
		t.Fatal(err)
	}
	other := b.self
	other.Incarnation++
	a.Probe(other, func() { t.Error("refused for another run") })
	a.Probe(b.self, note)
	next(t, refused, "refusal")
}
