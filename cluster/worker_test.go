// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"testing"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/member"
)

// closedStream is a bulk stream that counts its calls of Close.
type closedStream struct {
	mesh.BulkStream
	closed int
}

func (s *closedStream) Close() error { s.closed++; return nil }

// TestStreamsOfWorkers checks the limit of streams, and that a worker has one at a time.
func TestStreamsOfWorkers(t *testing.T) {
	who := func(n byte) member.Address {
		return member.WorkerIdentity(member.StoreID{n}).Address
	}
	var none works
	if err := none.addStream(who(1), &work{}); !errors.Is(err, errNoWorkers) {
		t.Errorf("a member without the option: %v", err)
	}
	w := works{limit: 2}
	first := &closedStream{}
	earlier, later := &work{raw: first}, &work{raw: &closedStream{}}
	for _, err := range []error{
		w.addStream(who(1), earlier), w.addStream(who(2), &work{raw: &closedStream{}}),
		w.addStream(who(1), later),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if first.closed != 1 {
		t.Error("the earlier stream of a worker is not closed")
	}
	if err := w.addStream(who(3), &work{}); !errors.Is(err, ErrBusy) {
		t.Errorf("the third worker of two: %v", err)
	}
	w.removeStream(who(1), earlier)
	if err := w.addStream(who(3), &work{}); !errors.Is(err, ErrBusy) {
		t.Errorf("when an earlier stream has ended: %v", err)
	}
	w.removeStream(who(1), later)
	if err := w.addStream(who(3), &work{}); err != nil {
		t.Errorf("when a stream has ended: %v", err)
	}
}
