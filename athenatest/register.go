// SPDX-License-Identifier: Apache-2.0

package athenatest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
)

// ErrFenced says that a leader with a greater token has written already.
var ErrFenced = errors.New("athenatest: fenced off")

// Register stands for what leaders change outside of the cluster. It keeps the
// greatest token beside the value and refuses smaller ones, as a database must to
// which work is given. The zero Register is empty; its methods may be called from any
// goroutine.
type Register struct {
	mu      sync.Mutex
	token   member.Token
	written []Write
	refused []Write
}

// Write is a value that a leader wrote, or tried to write.
type Write struct {
	At    time.Time
	Token member.Token
	Value string
}

// Write changes the value, or returns ErrFenced and remembers that in Refused.
func (r *Register) Write(token member.Token, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := Write{time.Now(), token, value}
	if token.Less(r.token) {
		r.refused = append(r.refused, w)
		return fmt.Errorf("%w: token %v, and a leader with token %v has written", ErrFenced,
			token, r.token)
	}
	r.token = token
	r.written = append(r.written, w)
	return nil
}

// Written lists what was written, the oldest first.
func (r *Register) Written() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.written)
}

// Refused lists what leaders of the past tried to write. Work that ends with the
// context of cluster.Node.WhileLeader writes none of them, unless its node was paused
// or its clock jumped.
func (r *Register) Refused() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused)
}
