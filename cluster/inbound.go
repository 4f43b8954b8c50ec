// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/transport"
)

// protocol is the version of the protocol that this program speaks.
const protocol = 1

// What waits for the loop, decoded. When there is more, the connections are read later.
// An event takes up to four times the bytes of its frame: all of them, some 32 MiB.
const (
	inboxLength = 256
	// maxLarge bounds those of frames of more than largeBytes, and such frames while
	// they are decoded. Heartbeats have a few hundred bytes.
	maxLarge   = 4
	largeBytes = 16 << 10
)

// arrival is a decoded event that waits for the loop.
type arrival struct {
	message.Message
	large bool
}

// inbound is the node as its transport sees it (transport.Handler).
type inbound struct{ *Node }

// Greet states who this node is at this moment.
func (n inbound) Greet() message.Message {
	seen := n.look()
	var id member.ClusterID
	if !n.volatile {
		// A node with a memory store has to meet those that founded its cluster again: from
		// them it learns that its own state is of a cluster that is gone.
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

// errMisplaced says that a greet came where none belongs.
var errMisplaced = errors.New("cluster: a second greet")

// System decodes an event and hands it to the loop. What no sound node sends
// closes the connection.
func (n inbound) System(from member.Identity, frame []byte) error {
	large := len(frame) > largeBytes
	if large {
		select {
		case n.large <- struct{}{}:
		case <-n.quit:
			return nil
		}
	}
	m, err := n.decode(from, frame)
	if err != nil || m.Body == nil {
		n.leave(large)
		return err
	}
	n.heard.message(m)
	select {
	case n.inbox <- arrival{m, large}:
	case <-n.quit:
	}
	return nil
}

// decode reads an event; one without a body, and no error, is not for this node.
func (n inbound) decode(from member.Identity, frame []byte) (message.Message, error) {
	m, err := wire.Decode(frame)
	switch {
	case errors.Is(err, wire.ErrUnknownKind), errors.Is(err, wire.ErrVersion):
		// What a later version of this program says to its like.
		_ = n.drop(from, dropUnknownKind, err)
		return message.Message{}, nil
	case err != nil:
		return m, n.drop(from, dropMalformed, err)
	case m.From.Address != from.Address:
		return m, n.drop(from, dropOtherSender,
			fmt.Errorf("cluster: message says that it is from %s", shown(m.From.Address)))
	case m.Body.Kind() == message.KindGreet:
		return m, n.drop(from, dropMisplaced, errMisplaced)
	}
	return m, nil
}

// leave makes room for another large event after one.
func (n *Node) leave(large bool) {
	if large {
		<-n.large
	}
}

// Custom decodes an event and hands it to its handlers. It blocks while they
// have more to do than they may keep waiting.
func (n inbound) Custom(from member.Identity, frame []byte) error {
	if wire.IsCancel(frame) {
		id, err := wire.DecodeCancel(frame)
		if err != nil {
			return n.drop(from, dropMalformed, err)
		}
		n.mux.Cancel(from.Address, id)
		return nil
	}
	e, err := wire.DecodeEvent(frame, MaxEventBytes)
	if err != nil {
		return n.drop(from, dropMalformed, err)
	}
	d := receiver.Delivery{
		From: n.sender(from), Raw: receiver.Raw{Name: e.Name, Payload: e.Payload}, Metadata: e.Metadata,
	}
	if e.Call.ID != 0 {
		d.Call = n.callOf(from.Address, e.Call)
	}
	if e.Call.Leader && !n.leads() {
		n.answer(from.Address, answerOf(e.Call, false, notLeader(n.look())))
		return nil
	}
	if err := n.deliver(context.Background(), d); err != nil {
		if d.Call != nil {
			n.answer(from.Address, answerOf(e.Call, false, err))
		}
		n.undelivered(from, e.Name, d.Call != nil, err)
	}
	return nil
}

// sender is who sent an event.
func (n *Node) sender(from member.Identity) *member.Member {
	if m := n.look().members[from.Address]; m != nil {
		return m
	}
	// The view of who sent it is ahead of ours; the greet has admitted it.
	return &member.Member{Identity: from, Name: from.Address.String()}
}

// undelivered counts and logs an event of another member that no handler gets; told
// says that its sender learns so.
func (n *Node) undelivered(from member.Identity, name string, told bool, err error) {
	reason := dropReason(err)
	l, warns := unhandledEvents[reason]
	if !warns || !n.meter.unhandledFirst(from.Address, name) {
		_ = n.drop(from, reason, err)
		return
	}
	n.meter.drop(reason)
	n.log.LogAttrs(context.Background(), l.level, l.text, slog.String("peer", shown(from.Address)),
		slog.String("event", member.PeerText(name)), slog.Bool("sender_told", told), errAttr(err))
}

// unhandledEvents says how the first event of a name is logged that no handler gets.
var unhandledEvents = map[string]line{
	dropNoHandler: {slog.LevelWarn, "no handler here for this event: it is dropped; " +
		"more of this name from this peer are only counted"},
	dropBadEvent: {slog.LevelWarn, "this event does not decode into its type here: " +
		"it is dropped; more of this name from this peer are only counted"},
}

// deliver hands an event to the handlers; the end of the node ends it too.
func (n *Node) deliver(ctx context.Context, d receiver.Delivery) error {
	err := n.mux.Deliver(ctx, d)
	if errors.Is(err, receiver.ErrClosed) {
		return ErrClosed
	}
	return err
}

func dropReason(err error) string {
	switch {
	case errors.Is(err, receiver.ErrUnknown):
		return dropNoHandler
	case errors.Is(err, receiver.ErrMalformed):
		return dropBadEvent
	case errors.Is(err, receiver.ErrBusy):
		return dropQueueFull
	default:
		return dropClosed
	}
}

// drop counts and logs a frame that is not used, and returns err.
func (n *Node) drop(from member.Identity, reason string, err error) error {
	n.meter.drop(reason)
	n.logFrame(from, reason, err)
	return err
}

// Needs reports whether a peer is a seed or a member.
func (n inbound) Needs(peer member.Address) bool {
	if slices.Contains(n.cfg.seeds, peer) {
		return true
	}
	_, ok := n.look().view.Members.Find(peer)
	return ok
}

// Admit lets everybody in whom the transport found to belong to this cluster.
func (n inbound) Admit(peer message.Message) error {
	greet, _ := peer.Body.(message.Greet) // the transport has checked it
	same := greet.SeedDigest == statemachine.SeedDigest(n.cfg.seeds)
	n.heard.greeted(peer.From.Address, same)
	if n.heard.earlierRun(peer.From) {
		n.logTaken(peer.From.Address, takenAlive)
	}
	n.heard.connected(peer.From.Address)
	return nil
}

// reported hears what the transport has to tell about connections.
func (n *Node) reported(r transport.Report) {
	if r.What == transport.ReportFailed {
		n.stop(fmt.Errorf("cluster: the socket failed: %w", r.Err))
		return
	}
	n.logReport(r)
	switch {
	case r.Err == nil || r.What == transport.ReportSeedsDiffer ||
		r.What == transport.ReportStreamRefused:
		// The two are connected all the same.
	case r.What == transport.ReportCertificate || r.Peer.IsZero():
		// Who did that may be anybody who names the address of a seed as its own, or none:
		// only what this node's own dials find says something of that seed.
	case isFinal(r.Err):
		n.heard.refusal(r.Peer, r.Err)
	default:
		n.heard.note(r.Peer, r.Err)
	}
}

// isFinal reports whether a connection was refused for good: because of secret
// or configuration, and not because a node was busy or runs twice.
func isFinal(err error) bool {
	if errors.Is(err, transport.ErrCertificate) || errors.Is(err, transport.ErrSelf) {
		return true
	}
	if closed, ok := errors.AsType[*transport.CloseError](err); ok {
		return closed.Code == transport.CodeRefused
	}
	_, mismatch := errors.AsType[*transport.ConfigMismatchError](err)
	return mismatch
}
