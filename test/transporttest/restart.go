// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/athena-go/athena/transport"
)

// testRestartWhileBlocked restarts a peer while the handler of its custom frames blocks. For each
// peer, the calls of the handler must be sequential and in order.
func testRestartWhileBlocked(t *testing.T, w World) {
	a, b := join(t, w, addr(1)), join(t, w, addr(2))
	connect(t, a, b)
	a.stop(transport.Custom)
	for i := range 5 {
		if err := b.Send(context.Background(), addr(1), fmt.Appendf(nil, "old %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	w.Kill(addr(2))
	s := defaults(addr(2))
	s.greet.From.Incarnation = 2
	b = joinAs(t, w, addr(2), s)
	for i := range 5 {
		if err := b.Send(context.Background(), addr(1), fmt.Appendf(nil, "new %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	a.resume(transport.Custom)
	time.Sleep(2 * time.Second)
	a.mu.Lock()
	defer a.mu.Unlock()
	t.Logf("received %q", a.got[transport.Custom])
	if a.most[transport.Custom] > 1 {
		t.Errorf("%d calls of Custom at the same time for one peer, want 1", a.most[transport.Custom])
	}
}
