// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// MaxBestEffortBytes bounds an event of BestEffort with its name and metadata, as
// they travel.
const MaxBestEffortBytes = transport.MaxDatagramBytes

var (
	errNoOutcome = errors.New("cluster: BestEffort with WithOutcome: nobody learns what becomes " +
		"of such an event: leave out one of the two")
	errRequestBestEffort = errors.New("cluster: BestEffort with a request: an answer that may " +
		"never come is no answer: leave out BestEffort")
	errRequestOutcome = errors.New("cluster: WithOutcome with a request: the request returns its " +
		"outcome: leave out WithOutcome")
	errDatagramCall = errors.New("cluster: a datagram whose outcome is asked for")
)

// BestEffort makes Send and Broadcast quick and careless, for what is out of date
// soon: the event arrives at most once, perhaps never, and may overtake others. It
// never waits, neither for the network nor for handlers: what is too much for either
// is lost, and counted where it is. So is what goes to a member with which this node
// has no connection yet; one is made for those that come later. 128 events wait at
// most at either end: a longer burst is lost, and counted (Status.Transport.Dropped,
// Status.Dropped). A nil error says nothing, therefore. An event larger than
// MaxBestEffortBytes is ErrTooLarge. Where WithOutcome is given too, and with a request
// or a stream, it is an error.
//
// Send gives such an event to each member of the view that is not removed, whatever its
// status, and whatever that of this node: in a part of the network without a leader
// nobody knows who is active.
func BestEffort() SendOption { return func(s *sending) { s.bestEffort = true } }

// encodeWith is encode with what the options demand of the event.
func (n *Node) encodeWith(event any, s sending) (*outgoing, error) {
	if s.bestEffort && s.outcome != nil {
		return nil, errNoOutcome
	}
	if err := checkMetadata(s.metadata); err != nil {
		return nil, err
	}
	e, err := n.encode(event, s.metadata)
	if err != nil {
		return nil, err
	}
	if size := len(e.Frame()); s.bestEffort && size > MaxBestEffortBytes {
		defer e.release()
		return nil, fmt.Errorf("%w for BestEffort: %q of %d bytes, want at most %d", ErrTooLarge,
			e.name, size, MaxBestEffortBytes)
	}
	return e, nil
}

// checkMetadata finds what the limits of WithMetadata forbid.
func checkMetadata(entries map[string]string) error {
	if len(entries) > MaxMetadata {
		return fmt.Errorf("%w: metadata of %d entries, want at most %d", ErrTooLarge,
			len(entries), MaxMetadata)
	}
	for k, v := range entries {
		if len(k) > MaxMetadataKey || len(v) > MaxMetadataValue {
			return fmt.Errorf("%w: metadata %.*q: key of %d and value of %d bytes, want at most %d and %d",
				ErrTooLarge, MaxMetadataKey, k, len(k), len(v), MaxMetadataKey, MaxMetadataValue)
		}
	}
	return nil
}

// sendBestEffort gives an event to one member, or not.
func (n *Node) sendBestEffort(
	ctx context.Context, seen *sight, to member.Address, e *outgoing,
) error {
	if err := n.over(ctx); err != nil {
		return err
	}
	if m := seen.members[to]; m == nil || m.Status == member.Removed {
		return fmt.Errorf("%w: %s is no member", ErrNotActive, to)
	}
	if to != n.cfg.self {
		return n.notDelivered(n.net.SendDatagram(to, e.Frame()))
	}
	err := n.deliver(n.unwilling, e.delivery(seen.members[to]))
	if errors.Is(err, receiver.ErrBusy) {
		_ = n.drop(seen.view.Self, dropQueueFull, err)
		return nil // as where it goes to another member
	}
	return err
}

// Datagram hands an event to its handlers, unless it would have to wait
// (transport.Handler).
func (n inbound) Datagram(from member.Identity, frame []byte) {
	e, err := wire.DecodeEvent(frame, MaxBestEffortBytes)
	switch {
	case errors.Is(err, wire.ErrUnknownKind), errors.Is(err, wire.ErrVersion):
		_ = n.drop(from, dropUnknownKind, err)
		return
	case err == nil && e.Call.ID != 0:
		err = errDatagramCall
	}
	if err != nil {
		_ = n.drop(from, dropMalformed, err)
		return
	}
	err = n.deliver(n.unwilling, receiver.Delivery{
		From: n.sender(from), Raw: receiver.Raw{Name: e.Name, Payload: e.Payload}, Metadata: e.Metadata,
	})
	if err != nil {
		n.undelivered(from, e.Name, false, err)
	}
}
