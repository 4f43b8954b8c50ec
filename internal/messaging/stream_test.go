// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

func addEcho(_ int, mux *receiver.Mux) {
	receiver.HandleStream(mux, "echo", func(
		_ context.Context, _ member.Member, s receiver.Stream,
	) error {
		_, err := io.Copy(s, s)
		return err
	})
}

// TestStreamWithABadHead checks that a stream with a malformed head is refused and counted.
func TestStreamWithABadHead(t *testing.T) {
	inWorld(t, addEcho, func(t *testing.T, nodes []*node) {
		n, peer := nodes[0], nodes[1].Member(address(1)).Identity
		var heads [][]byte
		for _, e := range []wire.Event{
			{Name: "echo", Payload: []byte{0xc0}}, {Name: "echo", Call: wire.Call{ID: 1}},
		} {
			head, err := wire.EncodeEvent(e, MaxStreamHeadBytes)
			if err != nil {
				t.Fatal(err)
			}
			heads = append(heads, head)
		}
		heads = append(heads, nil, []byte("echo"), heads[0][:len(heads[0])-1])
		for _, head := range heads {
			ours, theirs := newLoopback()
			ours.CloseWrite()
			n.Stream(peer, head, theirs)
			theirs.Close() // the transport closes the stream too
			got, err := io.ReadAll(ours)
			if err != nil || len(got) < 2 || wire.Outcome(got[0]) != wire.OutcomeMalformed {
				t.Errorf("head %q: got %q and %v, want the verdict that it is malformed", head, got, err)
			}
		}
		if got := n.drops(DropMalformed); got != len(heads) || len(n.dropped) != 1 {
			t.Errorf("dropped: got %v, want %d malformed", n.dropped, len(heads))
		}
	})
}

// TestStreamWithoutAVerdict checks that a stream fails if it ends before the peer's verdict.
func TestStreamWithoutAVerdict(t *testing.T) {
	inWorld(t, addEcho, func(t *testing.T, nodes []*node) {
		ours, theirs := newLoopback()
		s := nodes[0].newStream(member.Identity{Address: address(1)}, ours, make(chan struct{}, 1))
		if err := errors.Join(theirs.CloseWrite(), theirs.Close()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := s.Read(make([]byte, 1)); !errors.Is(err, ErrStreamReset) || errors.Is(err, io.EOF) {
				t.Errorf("Read: got %v, want ErrStreamReset", err)
			}
		}
		s.Close()
	})
}

// TestLoopbackKeepsWritesWhole checks that concurrent writes are not interleaved, and that the end
// of the stream follows them.
func TestLoopbackKeepsWritesWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := newLoopback()
		for _, b := range []byte("abc") {
			go ours.Write(bytes.Repeat([]byte{b}, 2*loopbackBytes))
		}
		synctest.Wait()
		go ours.CloseWrite()
		var runs []byte
		buffer := make([]byte, 1000)
		for {
			n, err := theirs.Read(buffer)
			runs = slices.Compact(append(runs, buffer[:n]...))
			if err != nil {
				if err != io.EOF {
					t.Errorf("Read: got %v, want io.EOF", err)
				}
				break
			}
			synctest.Wait()
		}
		if slices.Sort(runs); string(runs) != "abc" {
			t.Errorf("got runs of %q, want one of each of abc", runs)
		}
	})
}
