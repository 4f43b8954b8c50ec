// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// testFramesStandStill starts frames and does not complete them. It also checks that a peer may be
// silent for any length of time between two frames.
func testFramesStandStill(t *testing.T, w World) {
	a := join(t, w, addr(1))
	stranger := listenRaw(t, w, addr(9))
	id := uint64(0)
	connected := func() raw {
		r := dialRaw(t, stranger, addr(1))
		id++
		if err := r.greet(addr(9), addr(1), id); err != nil {
			t.Fatalf("greet: %v", err)
		}
		return r
	}
	whole := frame(bytes.Repeat([]byte("x"), 100_000))
	stalls := 0
	for k := range transport.Kinds {
		for _, came := range []int{2, 4, 100, 20_000, len(whole) - 1} {
			name := fmt.Sprintf("%d bytes of a %v frame", came, k)
			r := connected()
			r.write(k, frame([]byte("before")))
			time.Sleep(2 * mesh.FrameTimeout)
			start := time.Now()
			r.write(k, whole[:came])
			giveUp := time.AfterFunc(2*mesh.FrameTimeout, func() {
				r.Close(transport.CodeClosed, "the node did not close it")
			})
			if code, err := r.closed(); code != transport.CodeTimeout || err != nil {
				t.Errorf("%s: closed with %v, %v; want %v", name, code, err, transport.CodeTimeout)
			}
			giveUp.Stop()
			late := time.Since(start) - mesh.FrameTimeout
			synctest.Wait() // the node closes the connection before it reports the loss
			if late < 0 || late > 100*time.Millisecond {
				t.Errorf("%s: closed %v after FrameTimeout, want 0 to 100 ms", name, late)
			}
			stalls++
			if got := a.Stats().Dropped[mesh.DropStalled.String()]; got != uint64(stalls) {
				t.Errorf("%s: counted %d times, want once", name, int(got)-stalls+1)
			}
			errs := a.reported(mesh.ReportLost)
			if len(errs) == 0 || !strings.Contains(errs[len(errs)-1].Error(), "the rest of a frame") {
				t.Errorf("%s: reported %v, want an error with the reason", name, errs)
			}
		}
		got := len(a.received(k))
		r := connected()
		r.write(k, whole[:20_000])
		time.Sleep(mesh.FrameTimeout - time.Second)
		r.write(k, whole[20_000:])
		time.Sleep(2 * mesh.FrameTimeout)
		if now := len(a.received(k)); now != got+1 || !a.peer(addr(9)).Connected {
			t.Errorf("slow %v frame: %d arrived, connected=%v; want 1 and true",
				k, now-got, a.peer(addr(9)).Connected)
		}
		r.Close(transport.CodeClosed, "enough")
		time.Sleep(time.Second)
	}
}

// testStrangersShareRoom connects peers that are neither members nor seeds, and starts a large
// frame on each connection without completing it. The node must read only a few of these frames at
// a time. Frames of members and small frames must not wait for them.
func testStrangersShareRoom(t *testing.T, w World) {
	const length, room = 1 << 20, 4 // frames
	s := defaults(addr(1))
	s.needs = func(peer member.Address) bool { return peer == addr(2) }
	a, b := joinAs(t, w, addr(1), s), join(t, w, addr(2))
	connect(t, b, a)
	stranger := listenRaw(t, w, addr(9))
	written, last := make(chan error, 3*room+1), raw{}
	for i := range 3 * room {
		last = dialRaw(t, stranger, addr(1))
		if err := last.greet(addr(20+i), addr(1), 1); err != nil {
			t.Fatalf("greet: %v", err)
		}
		last.write(transport.System, frame([]byte("first"))) // a greeting alone is not enough
		to := last.Stream(transport.Custom)
		go func() { written <- second(to.Write(frame(make([]byte, length))[:length])) }()
	}
	time.Sleep(time.Second)
	if got := len(written); got != room {
		t.Errorf("read %d large frames from strangers at the same time, want %d", got, room)
	}
	start := time.Now()
	var before [transport.Kinds]int
	for k := range transport.Kinds {
		before[k] = len(a.received(k))
	}
	b.Notify(addr(1), make([]byte, length))
	if err := b.sendEach(addr(1), make([]byte, length)); err != nil {
		t.Errorf("Send: %v", err)
	}
	for k := range transport.Kinds {
		eventually(t, time.Second, fmt.Sprintf("the large %v frame of a member has arrived", k),
			a.hasReceived(k, before[k]+1))
	}
	last.write(transport.System, frame([]byte("small")))
	eventually(t, time.Second, "the small frame of a stranger has arrived", func() bool {
		got := a.received(transport.System)
		return got[len(got)-1] == "small"
	})
	if took := time.Since(start); took > 500*time.Millisecond {
		t.Errorf("other frames took %v while large ones were stalled, want at most 500 ms", took)
	}
	// Each frame releases its room when it times out.
	eventually(t, 3*mesh.FrameTimeout+time.Second, "all frames have timed out", func() bool {
		return a.Stats().Dropped[mesh.DropStalled.String()] == 3*room
	})
	r := dialRaw(t, stranger, addr(1))
	if err := r.greet(addr(50), addr(1), 1); err != nil {
		t.Fatalf("greet: %v", err)
	}
	got := len(a.received(transport.Custom))
	go func() { written <- second(r.Stream(transport.Custom).Write(frame(make([]byte, length)))) }()
	eventually(t, time.Second, "the large frame of a stranger has arrived",
		a.hasReceived(transport.Custom, got+1))
}
