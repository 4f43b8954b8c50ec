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

// protocol is the version of the protocol that this program speaks.
const protocol = 1

// Limits of decoded messages that wait for the loop. While they are reached, connections
// are not read. A message takes up to four times the bytes of its frame, so all of them
// take some 32 MiB at most.
const (
	inboxLength = 256
	// maxLarge bounds the messages with frames of more than largeBytes, those being
	// decoded included. Heartbeats have a few hundred bytes.
	maxLarge   = 4
	largeBytes = 16 << 10
)

// arrival is a decoded message that waits for the loop.
type arrival struct {
	message.Message
	large bool
}

// inbound is what the transport delivers to (mesh.Handler). The Messenger takes the
// frames of the application; inbound itself takes those of the protocol.
type inbound struct {
	*messaging.Messenger
	n *Node
}

// Greet returns the greet of this node at this moment (mesh.Handler).
func (in inbound) Greet() message.Message {
	n := in.n
	seen := n.look()
	var id member.ClusterID
	if !n.volatile {
		// A node with a memory store leaves the id out, so that the founders of its old
		// cluster accept it: from them it learns that the cluster in its state is gone.
		id = seen.held.Cluster
	}
	return message.Message{
		From: seen.view.Self,
		Body: message.Greet{
			Name:        n.cfg.Name,
			Cluster:     n.cfg.Cluster,
			Size:        n.cfg.Size,
			SeedDigest:  statemachine.SeedDigest(n.cfg.seeds),
			Timings:     n.cfg.timings,
			MinProtocol: protocol,
			MaxProtocol: protocol,
			ClusterID:   id,
		},
	}
}

// Reasons why the node itself drops a frame. Package messaging has further reasons, and
// those of the machine have the names of message.Reason.
const (
	dropOtherSender = "other sender"
	dropMisplaced   = "greet out of place"
)

// errMisplaced is the fault of a peer that greets after the connection is established.
var errMisplaced = errors.New("cluster: a second greet")

// System decodes a message and hands it to the loop (mesh.Handler). An error, for
// what no sound node sends, closes the connection.
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
	m, err := n.decode(from, frame)
	if err != nil || m.Body == nil {
		n.releaseLarge(large)
		return err
	}
	n.observer.Message(m)
	select {
	case n.inbox <- arrival{m, large}:
	case <-n.life.Done():
	}
	return nil
}

// decode reads a message. A message without a body, and no error, is not for this node.
func (n *Node) decode(from member.Identity, frame []byte) (message.Message, error) {
	m, err := wire.Decode(frame)
	switch {
	case errors.Is(err, wire.ErrUnknownKind), errors.Is(err, wire.ErrVersion):
		// A later version of this program sends it to nodes of that version.
		_ = n.drop(from, messaging.DropUnknownKind, err)
		return message.Message{}, nil
	case err != nil:
		return m, n.drop(from, messaging.DropMalformed, err)
	case m.From.Address != from.Address:
		return m, n.drop(from, dropOtherSender,
			fmt.Errorf("cluster: message says that it is from %s",
				safetext.PeerText(m.From.Address.String())))
	case m.Body.Kind() == message.KindGreet:
		return m, n.drop(from, dropMisplaced, errMisplaced)
	}
	return m, nil
}

// releaseLarge makes room for another large message after one.
func (n *Node) releaseLarge(large bool) {
	if large {
		<-n.large
	}
}

// drop counts and logs a frame that is not used, and returns err.
func (n *Node) drop(from member.Identity, reason string, err error) error {
	n.observer.Drop(from, reason, err)
	return err
}

// Needs reports whether a peer is a seed or a member (mesh.Handler).
func (in inbound) Needs(peer member.Address) bool {
	if slices.Contains(in.n.cfg.seeds, peer) {
		return true
	}
	_, ok := in.n.look().view.Members.Find(peer)
	return ok
}

// Admit accepts every peer (mesh.Handler): the transport has checked that it belongs
// to this cluster.
func (in inbound) Admit(peer message.Message) error {
	n := in.n
	greet, _ := peer.Body.(message.Greet) // the transport has checked it
	same := greet.SeedDigest == statemachine.SeedDigest(n.cfg.seeds)
	n.observer.Admit(peer.From, memberAt(n.look().view, peer.From.Address).Name, same)
	return nil
}

// reported takes a report of the transport about a connection.
func (n *Node) reported(r mesh.Report) {
	if r.What == mesh.ReportFailed {
		n.stop(fmt.Errorf("cluster: the socket failed: %w", r.Err))
		return
	}
	n.observer.Report(r)
}
