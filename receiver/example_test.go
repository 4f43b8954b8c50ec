// SPDX-License-Identifier: Apache-2.0

package receiver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Placed reports a new order.
type Placed struct {
	Item string
	Cost int `msgpack:"cost"`
}

// Position reports a position. It becomes obsolete when the next Position arrives.
type Position struct{ X, Y float64 }

// All handlers that match an event run. Only the newest Position is queued, and events
// without a handler are passed to the handler of Raw.
func ExampleHandleMatch() {
	rx := receiver.NewMux()
	receiver.Handle(rx, func(_ context.Context, from member.Member, p Placed) error {
		fmt.Println(from.Name, "placed", p.Item)
		return nil
	}, receiver.Named("orders.Placed"))
	receiver.HandleMatch(rx,
		func(_ member.Member, p Placed) bool { return p.Cost > 1000 },
		func(context.Context, member.Member, Placed) error { return nil })
	receiver.HandleMatch(rx,
		func(_ member.Member, r receiver.Raw) bool { return strings.HasPrefix(r.Name, "orders.") },
		func(context.Context, member.Member, receiver.Raw) error { return nil })
	receiver.Handle(rx, func(context.Context, member.Member, Position) error { return nil },
		receiver.Queue(1, receiver.Drop), receiver.Concurrency(2))
	receiver.Handle(rx, func(_ context.Context, from member.Member, r receiver.Raw) error {
		fmt.Println("no handler for", r.Name, "of", from.Name)
		return nil
	})
	fmt.Println(rx.Validate(nil))
	// Output: <nil>
}

// jsonCodec encodes events as JSON instead of msgpack. All nodes of a cluster must use it.
type jsonCodec struct{}

func (jsonCodec) Marshal(event any) ([]byte, error)     { return json.Marshal(event) }
func (jsonCodec) Unmarshal(payload []byte, e any) error { return json.Unmarshal(payload, e) }

func ExampleWithCodec() {
	rx := receiver.NewMux(receiver.WithCodec(jsonCodec{}))
	receiver.Handle(rx, func(context.Context, member.Member, Placed) error { return nil })
	fmt.Println(rx.Validate(nil))
	// Output: <nil>
}
