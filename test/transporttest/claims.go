// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// claimant returns the settings of a process with another store that greets from an address.
func claimant(as member.Address) settings {
	s := defaults(as)
	s.key = storeOf(addr(99))
	s.greet.From.StoreID = s.key.StoreID()
	s.greet.From.Incarnation = 1000
	return s
}

// knowingOnly returns the settings of the node at an address whose state lists only the given
// members.
func knowingOnly(at member.Address, members ...member.Address) settings {
	s := defaults(at)
	s.listed = func(peer member.Address) bool { return slices.Contains(members, peer) }
	return s
}

// testProof greets with the store id of another node, and with a proof for another connection or
// end.
func testProof(t *testing.T, w World) {
	a := join(t, w, addr(1))
	stranger := listenRaw(t, w, addr(9))
	other := defaults(addr(9))
	other.key = storeOf(addr(2))
	r := dialRaw(t, stranger, addr(1))
	if err := r.greetAs(other, addr(1), 1); err == nil {
		t.Error("a greeting with the key of another store was answered")
	}
	if code, err := r.closed(); code != transport.CodeRefused {
		t.Errorf("closed with %v, %v; want %v", code, err, transport.CodeRefused)
	}
	errs := a.reported(mesh.ReportRefused)
	if len(errs) != 1 || !errors.Is(errs[0], storekey.ErrUnproved) {
		t.Errorf("reported %v, want one %v", errs, storekey.ErrUnproved)
	}
	first, second := dialRaw(t, stranger, addr(1)), dialRaw(t, stranger, addr(1))
	if string(first.Binding()) == string(second.Binding()) || len(first.Binding()) < 32 {
		t.Errorf("bindings %x and %x of two connections, want two of 32 bytes",
			first.Binding(), second.Binding())
	}
}

// checkKept checks that a node kept its connection to a peer while another process claimed the
// address of the peer, and that no frame to the peer was lost.
func checkKept(t *testing.T, a, b *node) {
	t.Helper()
	if p := a.peer(b.address()); !p.Connected || p.Identity != b.greet.From {
		t.Errorf("%v has %+v, want a connection to %v", a.address(), p, b.greet.From)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.lost) > 0 {
		t.Errorf("%v lost connections to %v, want none", a.address(), a.lost)
	}
}

// testClaim lets a process claim the address of a member that is connected, once per interval for a
// minute, whichever node dialed the connection.
func testClaim(t *testing.T, w World) {
	for _, dialed := range []bool{true, false} {
		a, b := joinAs(t, w, addr(1), knowingOnly(addr(1), addr(2))), join(t, w, addr(2))
		if dialed {
			a.Notify(addr(2), []byte("0"))
		} else {
			b.Notify(addr(1), []byte("x"))
		}
		next := beat(a, b, 1, time.Second)
		stream, err := b.OpenStream(t.Context(), addr(1), []byte("head"))
		if err != nil {
			t.Fatal(err)
		}
		typo := joinAs(t, w, addr(9), claimant(addr(2)))
		beat(typo, a, 0, 2*time.Second)
		taken := func() bool {
			for _, err := range typo.reported(mesh.ReportRefusedByPeer) {
				closed, ok := errors.AsType[*transport.CloseError](err)
				if ok && closed.Code == transport.CodeAddressTaken {
					return true
				}
			}
			return false
		}
		if !taken() {
			t.Errorf("dialed %v: the claimant got %v, want that the address is taken", dialed,
				typo.reported(mesh.ReportRefusedByPeer))
		}
		if errs := a.reported(mesh.ReportClaimed); len(errs) != 1 ||
			!strings.Contains(errs[0].Error(), "process at "+addr(9).Host) {
			t.Errorf("dialed %v: reported %v, want one claim from %s", dialed, errs, addr(9).Host)
		}
		for range 20 {
			next = beat(a, b, next, time.Second)
			beat(typo, a, 0, 2*time.Second)
		}
		checkKept(t, a, b)
		mustWrite(t, stream, []byte("data"))
		mustRead(t, a.accepted(0), "data")
		close(a.accepted(0).gone)
		if got := a.Stats().Handshakes[mesh.ResultEstablished.String()]; got != 1 {
			t.Errorf("dialed %v: %d connections were made, want 1", dialed, got)
		}
		if got := len(a.received(transport.System)); got > 1 {
			t.Errorf("dialed %v: %d frames arrived, want none of the claimant", dialed, got)
		}
		if got := newest(t, b); got != next-1 {
			t.Errorf("dialed %v: the last frame received is %d, want %d", dialed, got, next-1)
		}
		closeAll(t, a, b, typo)
	}
}

// testClaimOfAbsent lets a process claim the address of a member that is down, which then returns.
func testClaimOfAbsent(t *testing.T, w World) {
	a := joinAs(t, w, addr(1), knowingOnly(addr(1), addr(2)))
	typo := joinAs(t, w, addr(9), claimant(addr(2)))
	beat(typo, a, 0, 10*time.Second)
	if p := a.peer(addr(2)); p.Connected {
		t.Errorf("connected to %v, want no connection while the member is down", p.Identity)
	}
	checkUnproved(t, typo)
	b := join(t, w, addr(2))
	b.Notify(addr(1), []byte("back"))
	eventually(t, 2*time.Second, "the member is connected", a.hasReceived(transport.System, 1))
	beat(typo, a, 0, 2*time.Second)
	checkKept(t, a, b)
}

// checkUnproved checks that a claimant was refused because its address was dialed in vain.
func checkUnproved(t *testing.T, typo *node) {
	t.Helper()
	errs := typo.reported(mesh.ReportUnreachable)
	if len(errs) == 0 {
		t.Error("the claimant was not refused")
	}
	for _, err := range errs {
		closed, ok := errors.AsType[*transport.CloseError](err)
		if !ok || closed.Code != transport.CodeUnproved {
			t.Errorf("the claimant was refused with %v, want %v", err, transport.CodeUnproved)
		}
	}
}

// testClaimWithoutMember lets a process greet first from an address that no state lists. Only a
// process that listens at the address is connected.
func testClaimWithoutMember(t *testing.T, w World) {
	a := joinAs(t, w, addr(1), knowingOnly(addr(1)))
	typo := joinAs(t, w, addr(9), claimant(addr(2)))
	beat(typo, a, 0, 10*time.Second)
	if p := a.peer(addr(2)); p.Connected {
		t.Errorf("connected to %v, which listens elsewhere", p.Identity)
	}
	checkUnproved(t, typo)
	b := joinAs(t, w, addr(2), knowingOnly(addr(2)))
	b.Notify(addr(1), []byte("x"))
	eventually(t, 2*time.Second, "the process at the address is connected",
		a.hasReceived(transport.System, 1))
	beat(typo, a, 0, 2*time.Second)
	checkKept(t, a, b)
	if got := a.received(transport.System); len(got) != 1 {
		t.Errorf("%d frames arrived, want none of the claimant", len(got)-1)
	}
}

// testClaimLeadsBack lets a process advertise an address that leads each node to itself, as
// localhost does.
func testClaimLeadsBack(t *testing.T, w World) {
	s := knowingOnly(addr(1))
	s.leadsBack = addr(8)
	a := joinAs(t, w, addr(1), s)
	typo := joinAs(t, w, addr(9), claimant(addr(8)))
	beat(typo, a, 0, 5*time.Second)
	checkUnproved(t, typo)
	errs := a.reported(mesh.ReportClaimed)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "process at "+addr(9).Host) ||
		!strings.Contains(errs[0].Error(), "leads from here to this node itself") {
		t.Errorf("reported %v, want that the address of %s leads back", errs, addr(9).Host)
	}
	if errs := a.reported(mesh.ReportRefused); len(errs) != 0 {
		t.Errorf("reported %v, want nothing about the dials of this node to itself", errs)
	}
}

// testMeet lets two nodes that know nothing of each other connect, whichever dials first.
func testMeet(t *testing.T, w World) {
	for _, dialers := range [][]int{{0}, {1}, {0, 1}} {
		nodes := []*node{
			joinAs(t, w, addr(1), knowingOnly(addr(1))), joinAs(t, w, addr(2), knowingOnly(addr(2))),
		}
		for _, i := range dialers {
			nodes[i].Notify(nodes[1-i].address(), []byte("x"))
		}
		for _, i := range dialers {
			eventually(t, time.Second, "the frame has arrived",
				nodes[1-i].hasReceived(transport.System, 1))
		}
		for i, n := range nodes {
			if p := n.peer(nodes[1-i].address()); p.Identity != nodes[1-i].greet.From {
				t.Errorf("dialed by %v: %v has %+v, want a connection to %v", dialers, n.address(), p,
					nodes[1-i].greet.From)
			}
		}
		closeAll(t, nodes...)
	}
}

// testProbes checks that a node probes the address of a peer that it does not know, unless the
// connection comes from that address.
func testProbes(t *testing.T, w World) {
	there := listenRaw(t, w, addr(7))
	dialRaw(t, listenRaw(t, w, addr(8)), addr(7))
	conn, err := there.Accept()
	if err != nil {
		t.Fatal(err)
	}
	want := uint64(0)
	if !conn.ProvesRemote() {
		want = 1
	}
	a, b := joinAs(t, w, addr(1), knowingOnly(addr(1))), joinAs(t, w, addr(2), knowingOnly(addr(2)))
	b.Notify(addr(1), []byte("x"))
	eventually(t, time.Second, "the frame has arrived", a.hasReceived(transport.System, 1))
	if got := b.Stats().Handshakes[mesh.ResultDuplicate.String()]; got != want {
		t.Errorf("the address was probed %d times, want %d", got, want)
	}
}

// testLostStore restarts a member with another store after its process died.
func testLostStore(t *testing.T, w World) {
	a, b := joinAs(t, w, addr(1), knowingOnly(addr(1), addr(2))), join(t, w, addr(2))
	connect(t, a, b)
	w.Kill(addr(2))
	lost := claimant(addr(2))
	b = joinAs(t, w, addr(2), lost)
	eventually(t, 3*time.Second, "the new store is connected", func() bool {
		beat(a, b, 0, interval)
		beat(b, a, 0, interval)
		return a.peer(addr(2)).Identity == lost.greet.From
	})
}

// testGreetAlone greets and sends nothing else. A node keeps such a connection to a member, but not
// to a stranger.
func testGreetAlone(t *testing.T, w World) {
	s := defaults(addr(1))
	s.needs = func(peer member.Address) bool { return peer == addr(8) }
	a := joinAs(t, w, addr(1), s)
	begin := time.Now()
	for _, from := range []member.Address{addr(8), addr(9)} {
		r := dialRaw(t, listenRaw(t, w, from), addr(1))
		if err := r.greet(from, addr(1), 1); err != nil {
			t.Fatalf("greet: %v", err)
		}
	}
	eventually(t, 2*time.Second, "the stranger is disconnected", func() bool {
		return !a.peer(addr(9)).Connected
	})
	if took := time.Since(begin); took < 400*time.Millisecond {
		t.Errorf("disconnected after %v, want at least a heartbeat timeout", took)
	}
	if !a.peer(addr(8)).Connected {
		t.Error("the member is disconnected too")
	}
}

// testOneWay lets a member dial that does not answer at the address that it advertises. Its
// connection works, and the node that cannot dial it reports that, of no other member.
func testOneWay(t *testing.T, w World) {
	a := joinAs(t, w, addr(1), knowingOnly(addr(1), addr(2), addr(3)))
	sound, typo := join(t, w, addr(3)), joinAs(t, w, addr(9), defaults(addr(2)))
	for range 30 {
		sound.Notify(addr(1), []byte("x"))
		beat(typo, a, 0, time.Second)
	}
	if p := a.peer(addr(2)); !p.Connected {
		t.Errorf("the member has the connection %+v, want one that it dialed", p)
	}
	errs := a.reported(mesh.ReportOneWay)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "it has connected from") {
		t.Errorf("reported %v, want one about %v", errs, addr(2))
	}
	checkKept(t, a, sound)
}
