// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/receiver"
)

// Requested is a type of request and its result: "ok", or a name for its error.
type Requested struct{ Type, Code string }

const (
	// maxRequestTypes bounds the types that are counted by name. A program may make up
	// names at run time.
	maxRequestTypes = 128
	// otherTypes stands for all further types.
	otherTypes = "other"
)

// codes has the names under which errors are counted. The first match counts.
var codes = []struct {
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

// codeOf returns the name of a result.
func codeOf(err error) string {
	if err == nil {
		return "ok"
	}
	if _, failed := errors.AsType[*receiver.HandlerError](err); failed {
		return "handler failed"
	}
	if _, moved := errors.AsType[*leader.NotLeaderError](err); moved {
		return "not leader"
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return "not sent" // the caller's context was done already
}

// requestCounts counts requests. The zero value is ready to use.
type requestCounts struct {
	counts sync.Map // of Requested to *atomic.Uint64
	names  sync.Map // the types that are counted by name
	types  atomic.Int64
}

// add counts one request.
func (r *requestCounts) add(name string, err error) {
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

func (r *requestCounts) read() map[Requested]uint64 {
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
