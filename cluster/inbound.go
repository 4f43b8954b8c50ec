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
)

// protocol is the version of the protocol that this program speaks. Version 1 had another digest
// for the states that followers acknowledge.
const protocol = 2

// Limits of the decoded messages that wait for the loop. While they are reached, connections are
// not read. A decoded message takes up to four times the size of its frame, so all of them together
// take at most about 32 MiB.
const (
	inboxLength = 256
	// maxLarge bounds the number of messages with frames of more than largeBytes, including those
	// being decoded. A heartbeat has a few hundred bytes.
	maxLarge   = 4
	largeBytes = 16 << 10
)

// inboxEntry is a decoded message that waits for the loop.
type inboxEntry struct {
	message.Message
	large bool
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
	return message.Message{
		From: s.view.Self,
		Body: message.Greet{
			Name:        n.cfg.Name,
			Cluster:     n.cfg.Cluster,
			Size:        n.cfg.Size,
			SeedDigest:  n.cfg.seedDigest(),
			Timings:     n.cfg.timings,
			MinProtocol: protocol,
			MaxProtocol: protocol,
			ClusterID:   id,

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
	dropMisplaced   = "greet out of place"
)

// errMisplaced is the error for a peer that greets on an established connection.
var errMisplaced = errors.New("cluster: second greet on one connection")

// System decodes a message and passes it to the loop. For a frame that no correct node sends, it
// returns an error, which closes the connection.
func (in inbound) System(from member.Identity, frame []byte) error {
	n := in.n
	large := len(frame) > largeBytes
	if large {
		select {
		case n.large <- struct{}{}:
		case <-n.life.Done():
			return nil
		}
	}
	m, err := n.decodeMessage(from, frame)
	if err != nil || m.Body == nil {
		n.releaseLarge(large)
		return err
	}
	n.observer.ObserveMessage(m)
	select {
	case n.inbox <- inboxEntry{m, large}:
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
		n.observer.DropFrame(from, messaging.DropUnknownKind, err)
		return message.Message{}, nil
	case err != nil:
		return m, n.dropFrame(from, messaging.DropMalformed, err)
	case m.From.Address != from.Address:
		return m, n.dropFrame(from, dropOtherSender,
			fmt.Errorf("cluster: message with a different sender: %s",
				safetext.PeerText(m.From.Address.String())))
	case m.Body.Kind() == message.KindGreet:
		return m, n.dropFrame(from, dropMisplaced, errMisplaced)
	}
	return m, nil
}

// releaseLarge makes room for another large message.
func (n *Node) releaseLarge(large bool) {
	if large {
		<-n.large
	}
}

// dropFrame counts and logs a dropped frame, and returns err.
func (n *Node) dropFrame(from member.Identity, reason string, err error) error {
	n.observer.DropFrame(from, reason, err)
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

// Admit accepts every peer: the transport has checked that it belongs to this cluster.
func (in inbound) Admit(peer message.Message) error {
	n := in.n
	greet, _ := peer.Body.(message.Greet) // the transport has checked the type
	same := greet.SeedDigest == n.cfg.seedDigest()
	name := shownMember(n.currentSnapshot().view, peer.From.Address).Name
	n.observer.ObserveGreet(peer.From, name, same)
	return nil
}

// handleReport handles a report of the transport about a connection.
func (n *Node) handleReport(r mesh.Report) {
	if r.Kind == mesh.ReportFailed {
		n.stop(fmt.Errorf("cluster: the socket failed: %w", r.Err))
		return
	}
	n.observer.ObserveConnection(r)
}
