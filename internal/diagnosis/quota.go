// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/athena-go/athena/member"
)

const (
	// MaxLines is the maximum number of lines with the same text in a QuotaInterval: two for each
	// member of the largest cluster.
	MaxLines = 2 * member.MaxMembers
	// QuotaInterval is the interval in which at most MaxLines lines with the same text are logged.
	QuotaInterval = time.Minute
)

// NewLogger returns the logger of a node, which adds the name of the node to each line and enforces
// the quota of each text.
func NewLogger(l *slog.Logger, node string) *slog.Logger {
	return slog.New(newQuotaHandler(l.Handler())).With(slog.String("node", node))
}

// quotaHandler bounds the size of the log, whatever peers do. In each QuotaInterval, it logs only
// the first MaxLines lines with the same text. The next line that it logs contains the number of
// dropped lines. The texts are constants of this program, so the number of texts is bounded too.
type quotaHandler struct {
	slog.Handler
	quota *quota
}

func newQuotaHandler(h slog.Handler) quotaHandler {
	return quotaHandler{h, &quota{used: map[string]usedQuota{}}}
}

// Handle implements slog.Handler.
func (h quotaHandler) Handle(ctx context.Context, r slog.Record) error {
	within, leftOut := h.quota.takeLine(r.Message, time.Now())
	if !within {
		return nil
	}
	if leftOut > 0 {
		r.AddAttrs(slog.Int("left_out", leftOut))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h quotaHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quotaHandler{h.Handler.WithAttrs(attrs), h.quota}
}

// WithGroup implements slog.Handler.
func (h quotaHandler) WithGroup(name string) slog.Handler {
	return quotaHandler{h.Handler.WithGroup(name), h.quota}
}

// quota counts the lines with each text.
type quota struct {
	mu   sync.Mutex
	used map[string]usedQuota
}

// usedQuota counts the lines with one text.
type usedQuota struct {
	since time.Time // start of the interval
	lines int       // lines in the interval, including those left out
}

// takeLine counts a line. It reports whether to log it, and how many lines were left out before it.
func (q *quota) takeLine(text string, now time.Time) (within bool, leftOut int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.used[text]
	if now.Sub(u.since) >= QuotaInterval {
		leftOut = max(0, u.lines-MaxLines)
		u = usedQuota{since: now}
	}
	u.lines++
	q.used[text] = u
	return u.lines <= MaxLines, leftOut
}
