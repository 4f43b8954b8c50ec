// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"

	"github.com/athena-go/athena/member"
)

// Mux routes events to handlers. Handlers are added before the node starts.
type Mux struct{}

// NewMux returns a Mux without handlers.
func NewMux() *Mux { return &Mux{} }

// Option changes how one event type is handled.
type Option func(*options)

type options struct{ name string }

// Named fixes the name under which the type travels, in place of the type's
// own name, so that a type may be renamed without breaking older members.
func Named(name string) Option { return func(o *options) { o.name = name } }

// Handle adds fn as a handler of events of type T.
func Handle[T any](
	mux *Mux, fn func(ctx context.Context, from member.Member, event T) error, opts ...Option,
) {
}
