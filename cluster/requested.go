// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Requested is a type of request and how one of it ended: "ok", or what the error
// says.
type Requested struct{ Type, Code string }

const (
	// maxRequestTypes bounds the types that are counted by name. They are of this
	// program, not of a peer, but a program may make names up.
	maxRequestTypes = 128
	// otherTypes is the name of the rest.
	otherTypes = "other"
)

// outcomes says how the errors of a request are counted, the first that fits.
var outcomes = []struct {
	err  error
	code string
}{
	{ErrUnknownOutcome, "unknown outcome"},
	{ErrBadAnswer, "bad answer"},
	{ErrUnknownType, "unknown type"},
	{ErrTooLarge, "too large"},
	{ErrNotActive, "not active"},
	{ErrBusy, "busy"},
	{ErrNotDelivered, "not delivered"},
	{ErrClosed, "closed"},
}

// codeOf is the code of an error.
func codeOf(err error) string {
	if err == nil {
		return "ok"
	}
	if _, failed := errors.AsType[*HandlerError](err); failed {
		return "handler failed"
	}
	if _, moved := errors.AsType[*NotLeaderError](err); moved {
		return "not leader"
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.code
		}
	}
	return "not sent" // the caller's context had ended
}

// requests counts requests. The zero requests is ready.
type requests struct {
	counts sync.Map // of Requested to *atomic.Uint64
	names  sync.Map // of the types that are counted by name
	types  atomic.Int64
}

// ended counts a request.
func (r *requests) ended(name string, err error) {
	if _, known := r.names.Load(name); !known {
		if r.types.Add(1) > maxRequestTypes {
			r.types.Add(-1)
			name = otherTypes
		} else if _, twice := r.names.LoadOrStore(name, true); twice {
			r.types.Add(-1)
		}
	}
	key := Requested{name, codeOf(err)}
	n, ok := r.counts.Load(key)
	if !ok {
		n, _ = r.counts.LoadOrStore(key, new(atomic.Uint64))
	}
	if counter, ok := n.(*atomic.Uint64); ok {
		counter.Add(1)
	}
}

func (r *requests) report() map[Requested]uint64 {
	out := map[Requested]uint64{}
	r.counts.Range(func(key, n any) bool {
		k, _ := key.(Requested)
		if counter, ok := n.(*atomic.Uint64); ok {
			out[k] = counter.Load()
		}
		return true
	})
	return out
}
