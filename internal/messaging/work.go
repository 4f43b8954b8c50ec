// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/athena-go/athena/internal/eventname"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// MaxWorkBytes bounds a message of a worker.
const MaxWorkBytes = 32 << 10

// OpenWork opens the stream of a worker to a member.
func (m *Messenger) OpenWork(ctx context.Context, to member.Address) (receiver.Stream, error) {
	return m.OpenStream(ctx, to, eventname.Work, Options{})
}

// IsWork reports whether an observer opens the stream of a worker with this head.
func IsWork(from member.Identity, head []byte) bool {
	if !from.Address.IsObserver() {
		return false
	}
	e, err := wire.DecodeEvent(head, MaxStreamHeadBytes)
	return err == nil && e.Name == eventname.Work
}

// AcceptWork accepts the stream of a worker, or refuses it with a reason.
func AcceptWork(raw mesh.BulkStream, refused error) error {
	if refused != nil {
		refuseStream(raw, outcomeOf(false, refused), refused)
		return refused
	}
	_, err := raw.Write([]byte{byte(wire.OutcomeDone)})
	return err
}

// WriteWork writes a message to the stream of a worker.
func WriteWork(w io.Writer, m message.Message) error {
	frame, err := wire.Append(make([]byte, 4), m)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	_, err = w.Write(frame)
	return err
}

// ReadWork reads a message of at most limit bytes from the stream of a worker.
func ReadWork(r io.Reader, limit int) (m message.Message, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return m, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > limit {
		return m, fmt.Errorf("%w: %d bytes in the stream of a worker, want at most %d",
			wire.ErrTooLarge, n, limit)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r, frame); err != nil {
		return m, err
	}
	return wire.Decode(frame)
}

// DescribeState returns the message from which a worker that got the state before, as the last one
// on its stream, learns s: the whole state, unless only records have changed.
func DescribeState(before, s member.State) message.Body {
	if before.Cluster != s.Cluster || before.Claim() != s.Claim() ||
		!slices.Equal(before.Roster, s.Roster) {
		return message.ClusterAlignment{State: s}
	}
	u := message.RecordUpdate{Number: s.Number}
	for old, e := range s.Records.Changes(before.Records) {
		if e.Key != "" {
			u.Set = append(u.Set, e)
		} else {
			u.Dropped = append(u.Dropped, old.Key)
		}
	}
	return u
}

// ReadState returns the whole state for changes of shown, the last state on the stream, which it
// updates. It returns other messages as they are.
func ReadState(b message.Body, shown *member.State) (message.Body, error) {
	switch b := b.(type) {
	case message.ClusterAlignment:
		*shown = b.State
	case message.RecordUpdate:
		records, fits := b.Apply(shown.Records)
		if !fits || shown.IsZero() {
			return nil, fmt.Errorf("%w: the stream of a worker has changes of no state", wire.ErrMalformed)
		}
		shown.Number, shown.Records = b.Number, records
		return message.ClusterAlignment{State: *shown}, nil
	}
	return b, nil
}
