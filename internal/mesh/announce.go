// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// Announcer sends other nodes one message in the name of a node whose process has ended. It dials,
// but accepts no connection, and handles no message except the answer.
type Announcer struct{ mesh *Mesh }

// greeter is the handler of an Announcer, which only greets.
type greeter struct {
	Handler // nil
	greet   message.Message
}

// Greet returns the greeting of the node.
func (h greeter) Greet() message.Message { return h.greet }

// NewAnnouncer is like New, but also takes the greeting of the node. The network must not listen on
// the address of the node, which belongs to the next run.
func NewAnnouncer(
	cfg Config, greet message.Message, listen func(transport.Config) (transport.Network, error),
) (*Announcer, error) {
	m, err := New(cfg, listen)
	if err != nil {
		return nil, err
	}
	m.handler, m.self = greeter{greet: greet}, greet.From.Address
	return &Announcer{m}, nil
}

// Close closes the network.
func (a *Announcer) Close() error { return a.mesh.Close() }

// Tell dials a node, greets it, and calls ready, which may block until others have been greeted
// too. Then it sends system frames, and returns nil when a message for which isAnswer returns true
// has arrived.
func (a *Announcer) Tell(
	ctx context.Context, to member.Address, ready func(), frames [][]byte,
	isAnswer func(message.Message) bool,
) error {
	m := a.mesh
	conn, err := m.net.Dial(ctx, to)
	if err != nil {
		return err
	}
	defer conn.Close(transport.CodeClosed, shutdownReason)
	stop := context.AfterFunc(ctx, func() { conn.Close(transport.CodeTimeout, shutdownReason) })
	defer stop()
	id := rand.Uint64() | 1 // 0 would make it a probe
	reader, _, err := m.greetAs(conn, to, Ends{ID: id, Lost: id})
	if err != nil {
		return err
	}
	ready()
	var b []byte
	for _, f := range frames {
		b = appendFrame(b, f)
	}
	if _, err := conn.Stream(transport.System).Write(b); err != nil {
		return fmt.Errorf("transport: send to %s: %w", to, err)
	}
	for reader.limit = MaxSystemBytes; ; {
		raw, err := reader.next()
		if err != nil {
			return fmt.Errorf("transport: no answer from %s: %w", to, err)
		}
		if answer, err := m.cfg.Decode(raw); err == nil && isAnswer(answer) {
			return nil
		}
	}
}
