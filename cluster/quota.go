// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// So many lines of one text are logged in quotaInterval: two about each member of
	// the largest cluster.
	maxLines      = 2 * MaxSize
	quotaInterval = time.Minute
)

// quota bounds what a log takes, whatever peers do: lines of one text that are too
// many are left out, and the first one after them says how many. It is a hook of the
// node's logger. The texts are those of this program.
type quota struct {
	mu   sync.Mutex
	used map[string]used
}

// used is what was logged of one text.
type used struct {
	since time.Time // when its interval began
	lines int       // in it, those left out too
}

func newQuota() *quota { return &quota{used: map[string]used{}} }

// Run implements zerolog.Hook.
func (q *quota) Run(e *zerolog.Event, _ zerolog.Level, text string) {
	within, leftOut := q.take(text, time.Now())
	switch {
	case !within:
		e.Discard()
	case leftOut > 0:
		e.Int("left_out", leftOut)
	}
}

// take counts a line, and reports whether it is logged and how many before it were not.
func (q *quota) take(text string, now time.Time) (within bool, leftOut int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.used[text]
	if now.Sub(u.since) >= quotaInterval {
		leftOut = max(0, u.lines-maxLines)
		u = used{since: now}
	}
	u.lines++
	q.used[text] = u
	return u.lines <= maxLines, leftOut
}
