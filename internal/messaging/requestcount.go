// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"errors"
	"maps"
	"sync"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/receiver"
)

// Requested is a type of request and its result: "ok", or a name for the error.
type Requested struct{ Type, Code string }

const (
	// maxRequestTypes bounds the types that are counted by name, because a program may make
	// up names at run time.
	maxRequestTypes = 128
	// otherTypes is the name under which all further types are counted.
	otherTypes = "other"
)

// codes lists the names under which errors are counted. The first matching error is used.
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
	return "not sent" // ctx was already done
}

// requestCounts counts requests. The zero value is ready to use.
type requestCounts struct {
	mu     sync.Mutex
	counts map[Requested]uint64
	types  map[string]bool // types counted by name
}

func (r *requestCounts) add(name string, err error) {
	code := codeOf(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts, r.types = map[Requested]uint64{}, map[string]bool{}
	}
	switch {
	case r.types[name]:
	case len(r.types) < maxRequestTypes:
		r.types[name] = true
	default:
		name = otherTypes
	}
	r.counts[Requested{name, code}]++
}

func (r *requestCounts) read() map[Requested]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}
