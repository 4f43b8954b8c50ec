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

// ErrFenced means that a leader with a greater token has already written.
var ErrFenced = errors.New("athenatest: write refused")

// Register stands for external state that leaders write. It stores the greatest token
// beside the value and refuses smaller tokens, as a database must. The zero Register is
// empty. Its methods may be called concurrently.
type Register struct {
	mu      sync.Mutex
	token   member.Token
	written []Write
	refused []Write
}

// Write is a value that a leader wrote or tried to write.
type Write struct {
	At    time.Time
	Token member.Token
	Value string
}

// Write sets the value, or adds the write to Refused and returns ErrFenced.
func (r *Register) Write(token member.Token, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := Write{time.Now(), token, value}
	if token.Less(r.token) {
		r.refused = append(r.refused, w)
		return fmt.Errorf("%w: token %v is older than token %v, which has already been used", ErrFenced,
			token, r.token)
	}
	r.token = token
	r.written = append(r.written, w)
	return nil
}

// Written returns the successful writes, oldest first.
func (r *Register) Written() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.written)
}

// Refused returns the refused writes, which came from former leaders. If work ends with the context
// of cluster.Node.WhileLeader, writes are refused only after a pause of a node or a jump of its
// clock.
func (r *Register) Refused() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused)
}
