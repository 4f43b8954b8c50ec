// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/transport"
)

// Limits of the decoded messages that wait for the loop. While they are reached, connections are
// not read. A decoded message takes up to four times the size of its frame, so all of them together
// take at most about 32 MiB.
const (
	inboxLength = 256
	// maxLarge bounds the number of messages with frames of more than largeBytes, including those
	// being decoded. A heartbeat has a few hundred bytes.
	maxLarge   = 4
	largeBytes = 16 << 10
	// maxStrangers bounds the messages of peers that are neither members nor seeds. The answer may be
	// a whole state, so heartbeats must not wait behind many of them. It is less than maxLarge.
	maxStrangers = 2
)

// inboxEntry is a decoded message that waits for the loop.
type inboxEntry struct {
	message.Message
	rooms []chan struct{} // n.large and n.strangers if it has a place there
}

// inbound implements mesh.Handler. The embedded Messenger handles the frames of the application;
// inbound itself handles the frames of the protocol.
type inbound struct {
	*messaging.Messenger
	n *Node
}

// Greet returns the current greeting of this node.
func (in inbound) Greet() message.Message {
	n := in.n
	s := n.currentSnapshot()
	var id member.ClusterID
	if !n.volatile {
		// A node with a store in memory omits the id. So the founders of its old cluster accept it even
		// if they have founded another cluster. From them the node learns that its old cluster no longer
		// exists.
		id = s.held.Cluster
	}
	return n.makeGreeting(s.view.Self, id)
}

// makeGreeting returns the greeting of a run of this node that holds a state of a cluster.
func (n *Node) makeGreeting(run member.Identity, cluster member.ClusterID) message.Message {
	return message.Message{
		From: run,
		Body: message.Greet{
			Name:        n.cfg.Name,
			Cluster:     n.cfg.Cluster,
			Size:        n.cfg.Size,
			SeedDigest:  n.cfg.seedDigest(),
			Timings:     n.cfg.timings,
			MinProtocol: message.Protocol,
			MaxProtocol: message.Protocol,
			ClusterID:   cluster,

			OtherTimings: n.cfg.otherTimings,
		},
	}
}

// seedDigest returns the digest of the configured list, in which a name of SRV records stands for
// itself. Nodes that saw different records at their starts have the same configuration.
func (s settings) seedDigest() uint64 {
	if name, ok := s.srvName(); ok {
		return statemachine.SeedDigest([]member.Address{{Host: srvPrefix + name}})
	}
	return statemachine.SeedDigest(s.seeds)
}

// The reasons why the node itself drops a frame. Package messaging defines further reasons. The
// reasons of the machine have the names of message.Reason.
const (
	dropOtherSender = "other sender"
	dropOtherStore  = "other store"
	dropMisplaced   = "greet out of place"
)

// errMisplaced is the error for a peer that greets on an established connection.
var errMisplaced = errors.New("cluster: second greet on one connection")

// System decodes a message and passes it to the loop. For a frame that no correct node sends, it
// returns an error, which closes the connection.
func (in inbound) System(from member.Identity, frame []byte) error {
	n := in.n
	var e inboxEntry
	if !in.Needs(from.Address) {
		e.rooms = append(e.rooms, n.strangers)
	}
	if len(frame) > largeBytes {
		e.rooms = append(e.rooms, n.large)
	}
	for _, room := range e.rooms {
		select {
		case room <- struct{}{}:
		case <-n.life.Done():
			return nil
		}
	}
	m, err := n.decodeMessage(from, frame)
	if err != nil || m.Body == nil {
		e.leaveRooms()
		return err
	}
	n.reporter.ObserveMessage(m)
	if m.Body.Kind() == message.KindSeedKeepAliveAck {
		n.net.NoteAnswer(from)
	}
	e.Message = m
	select {
	case n.inbox <- e:
	case <-n.life.Done():
	}
	return nil
}

// decodeMessage decodes a message. If the message must be ignored, decodeMessage returns a message
// without a body and a nil error.
func (n *Node) decodeMessage(from member.Identity, frame []byte) (message.Message, error) {
	m, err := wire.Decode(frame)
	switch {
	case errors.Is(err, wire.ErrUnknownKind), errors.Is(err, wire.ErrVersion):
		// The peer runs a later version of this program.
		n.reporter.DropFrame(from, messaging.DropUnknownKind, err)
		return message.Message{}, nil
	case err != nil:
		return m, n.dropFrame(from, messaging.DropMalformed, err)
	case m.From.Address != from.Address:
		return m, n.dropFrame(from, dropOtherSender,
			fmt.Errorf("cluster: message with a different sender: %s",
				safetext.PeerText(m.From.Address.String())))
	case m.From.StoreID != from.StoreID:
		// The connection proves one store. A frame of a new store in memory may have been queued before
		// the node greets with that store.
		n.reporter.DropFrame(from, dropOtherStore, nil)
		return message.Message{}, nil
	case m.Body.Kind() == message.KindGreet:
		return m, n.dropFrame(from, dropMisplaced, errMisplaced)
	}
	if b, ok := m.Body.(message.RunEnded); ok {
		return n.readEnd(from, m, b)
	}
	return m, nil
}

// leaveRooms makes room for another message.
func (e inboxEntry) leaveRooms() {
	for _, room := range e.rooms {
		<-room
	}
}

// dropFrame counts and logs a dropped frame, and returns err.
func (n *Node) dropFrame(from member.Identity, reason string, err error) error {
	n.reporter.DropFrame(from, reason, err)
	return err
}

// Needs reports whether a peer is a seed or a member.
func (in inbound) Needs(peer member.Address) bool {
	if slices.Contains(in.n.cfg.seeds, peer) {
		return true
	}
	_, ok := in.n.currentSnapshot().view.Members.Find(peer)
	return ok
}

// maxAsks bounds the claims that wait for the loop. A claim beyond it is repeated.
const maxAsks = 16

// claim is a process that claims the address of a peer.
type claim struct {
	peer  member.Address
	store member.StoreID
}

// Ask asks a peer for an answer, because another process claims its address.
func (in inbound) Ask(peer member.Address, claimant member.StoreID) {
	select {
	case in.n.claims <- claim{peer, claimant}:
	default:
	}
}

// StoreOf returns the store of the member at an address in the held state.
func (in inbound) StoreOf(peer member.Address) member.StoreID {
	m, _ := in.n.currentSnapshot().held.Roster.Find(peer)
	return m.StoreID
}

// Greeted observes the greeting of a peer.
func (in inbound) Greeted(peer message.Message) {
	n := in.n
	greet, _ := peer.Body.(message.Greet) // the transport has checked the type
	n.reporter.ObserveGreet(peer.From, greet.SeedDigest == n.cfg.seedDigest())
}

// mayEnd reports whether this node ends because a peer reports that another process has its
// address. A member does not: a peer may not know yet that it has the address now. And a stranger
// must not be able to end a node.
func (n *Node) mayEnd(reporter member.Address) bool {
	s := n.currentSnapshot()
	return !s.held.Roster.IsVoter(s.view.Self.Voter()) && inbound{n: n}.Needs(reporter)
}

// handleReport handles a report of the transport about a connection. A node without a place in the
// cluster ends if another process has its address.
func (n *Node) handleReport(r mesh.Report) {
	if r.Kind == mesh.ReportFailed {
		n.stop(fmt.Errorf("cluster: the socket failed: %w", r.Err))
		return
	}
	n.reporter.ObserveConnection(r)
	closed, ok := errors.AsType[*transport.CloseError](r.Err)
	if ok && r.Kind == mesh.ReportRefusedByPeer && closed.Code == transport.CodeEarlierRun {
		n.replacedBy.Store(&closed.Reason)
	}
	if ok && r.Kind == mesh.ReportRefusedByPeer && closed.Code == transport.CodeAddressTaken &&
		n.mayEnd(r.Peer) {
		n.stop(fmt.Errorf("%w: %s reports that another process answers at %s: correct the address "+
			"that this process advertises, or stop the other process", ErrAddressInUse, r.Peer, n.cfg.self))
	}
}
