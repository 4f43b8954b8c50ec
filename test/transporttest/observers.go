// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// maxObservers bounds the observers of a node.
const maxObservers = 2

// joinObserver starts a Mesh that greets as an observer.
func joinObserver(t *testing.T, w World, at member.Address, id string) *node {
	t.Helper()
	s := defaults(at)
	s.greet.From.Address = member.ObserverAddress(id)
	s.edit(func(g *message.Greet) {
		g.Size, g.SeedDigest, g.ClusterID = 1, 0, member.ClusterID{}
		g.Timings.HeartbeatTimeout *= 2
	})
	return joinAs(t, w, at, s)
}

// joinConnected starts a member and an observer that has sent it a frame.
func joinConnected(t *testing.T, w World) (a, o *node, ctx context.Context) {
	t.Helper()
	a, o = join(t, w, addr(1)), joinObserver(t, w, addr(2), "o")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	if err := o.Send(ctx, addr(1), []byte("question")); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Second, "the member has received the frame", a.hasReceived(transport.Custom, 1))
	return a, o, ctx
}

// testObservers checks that an observer exchanges custom frames, answers and streams with a member
// whose size and timings it does not know, and that the member does not count it as a peer.
func testObservers(t *testing.T, w World) {
	a, o, ctx := joinConnected(t, w)
	from := a.receivedBy(transport.Custom)[0]
	if from != o.greet.From || !from.Address.IsObserver() {
		t.Errorf("the frame came from %v, want %v", from, o.greet.From)
	}
	answer := []byte("answer")
	err := a.Destination(from.Address).Send(ctx, transport.Answer, answer, mesh.SendMode{Flush: true})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Second, "the answer has arrived", o.hasReceived(transport.Answer, 1))
	s, err := o.OpenStream(ctx, addr(1), []byte("head"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := a.accepted(0); got.head != "head" || got.from != from {
		t.Errorf("got a stream %q of %v", got.head, got.from)
	}
	if peers, n := a.Peers(), a.Stats().Observers; len(peers) != 0 || n != 1 {
		t.Errorf("the member has peers %v and %d observers, want only 1 observer", peers, n)
	}
	if len(a.admitted) != 0 || len(a.reports) != 0 {
		t.Errorf("the node of the member has seen %v and %v", a.admitted, a.reports)
	}
}

// testObserversAreNoMembers checks that no system frame of an observer reaches the node, and that a
// member never dials an observer.
func testObserversAreNoMembers(t *testing.T, w World) {
	a, o := join(t, w, addr(1)), joinObserver(t, w, addr(2), "o")
	for range 3 {
		o.Notify(addr(1), []byte("heartbeat"))
		eventually(t, 10*time.Second, "the member has closed the connection", func() bool {
			return a.Stats().Observers == 0 && a.Stats().Dropped["garbage"] > 0
		})
	}
	a.Notify(member.ObserverAddress("o"), []byte("heartbeat"))
	time.Sleep(5 * time.Second)
	if got := a.Stats(); got.Dials != 0 {
		t.Errorf("the member dialed %d times, want 0", got.Dials)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.got[transport.System]) != 0 {
		t.Errorf("system frames reached the node: %q", a.got[transport.System])
	}
}

// testObserversFull checks that a member refuses the observers above its limit with a reason, which
// their calls return immediately, and takes another one when one has left.
func testObserversFull(t *testing.T, w World) {
	a := join(t, w, addr(1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all []*node
	for i := range maxObservers + 1 {
		all = append(all, joinObserver(t, w, addr(2+i), string(rune('o'+i))))
	}
	last := all[maxObservers]
	for _, o := range all[:maxObservers] {
		if err := o.Send(ctx, addr(1), []byte("question")); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	err := last.Send(ctx, addr(1), []byte("question"))
	if !errors.Is(err, mesh.ErrUnreachable) || !strings.Contains(err.Error(), "full") {
		t.Errorf("beyond the limit: got %v, want ErrUnreachable and the reason", err)
	}
	if took := time.Since(began); took > mesh.SendTimeout/2 {
		t.Errorf("the refusal took %v", took)
	}
	s := a.Stats()
	if s.Observers != maxObservers || s.Handshakes["too many observers"] == 0 {
		t.Errorf("got %d observers, handshakes %v; want a refusal", s.Observers, s.Handshakes)
	}
	if err := all[0].Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "there is room", func() bool {
		return last.Send(ctx, addr(1), []byte("question")) == nil
	})
}

// testStuckObserver checks that a member disconnects an observer that does not read its answers,
// and keeps few of them.
func testStuckObserver(t *testing.T, w World) {
	a, o, ctx := joinConnected(t, w)
	o.stop(transport.Answer)
	answer := make([]byte, mesh.MaxObserverBytes)
	mode := mesh.SendMode{Flush: true}
	began, sent := time.Now(), 0
	for ; ctx.Err() == nil && a.Stats().Observers > 0; sent++ {
		_ = a.Destination(o.greet.From.Address).Send(ctx, transport.Answer, answer, mode)
	}
	if took := time.Since(began); ctx.Err() != nil || took > 15*time.Second {
		t.Errorf("the observer is connected after %v, want it to be disconnected", took)
	}
	if kept := sent * len(answer); kept > 8<<20 {
		t.Errorf("%d bytes were sent to an observer that does not read", kept)
	}
}
