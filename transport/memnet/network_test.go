// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/athena-go/athena/internal/transporttest"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNetwork(t *testing.T) {
	transporttest.Run(t, func(testing.TB) transporttest.World { return world{New()} })
}

// world is a Network as the suite's World.
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
