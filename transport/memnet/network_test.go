// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/transporttest"
	"github.com/athena-go/athena/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNetwork(t *testing.T) {
	transporttest.Run(t, func(testing.TB) transporttest.World { return world{New()} })
}

// world implements transporttest.World with a Network.
type world struct{ *Network }

func (w world) Listen(t testing.TB, at member.Address) transport.Network {
	t.Helper()
	e, err := w.Network.Listen(at)
	if err != nil {
		t.Fatalf("listen on %v: %v", at, err)
	}
	return e
}

func (w world) Close()               {}
func (w world) Delay() time.Duration { return 0 }

func TestListenTwice(t *testing.T) {
	n := New()
	at := member.Address{Host: "a", Port: 1}
	e, err := n.listen(at)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	if _, err := n.Listen(at); !errors.Is(err, transport.ErrAddressInUse) {
		t.Errorf("second Listen on %v: got %v, want ErrAddressInUse", at, err)
	}
	if err := e.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if _, err = n.listen(at); err != nil {
		t.Errorf("listen after Close: %v", err)
	}
}

// TestKillBreaksConnectionsFirst checks that a killed node cannot end a stream gracefully once its
// Accept has failed: the peer must see a reset.
func TestKillBreaksConnectionsFirst(t *testing.T) {
	for round := range 100 {
		n := New()
		a, b := member.Address{Host: "a", Port: 1}, member.Address{Host: "b", Port: 1}
		from, _ := n.listen(a)
		to, _ := n.listen(b)
		conns := make([]transport.Conn, 100)
		for i := range conns {
			if _, err := from.Dial(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			conns[i], _ = to.Accept()
		}
		accepting, written := make(chan struct{}), make(chan int)
		go func() {
			close(accepting)
			_, _ = to.Accept()
			count := 0
			for _, c := range conns {
				if _, err := c.Stream(transport.System).TryWrite([]byte("x")); err == nil {
					count++
				}
			}
			written <- count
		}()
		<-accepting
		n.Kill(b)
		if got := <-written; got > 0 {
			t.Fatalf("round %d: the killed node wrote on %d connections after Accept had failed", round, got)
		}
	}
}
