// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"log/slog"

	"github.com/athena-go/athena/internal/observe"
)

// line is the level and the text of a log line. Every line has its row in docs/logs.md;
// package observe writes most of them.
type line struct {
	level slog.Level
	text  string
}

func (n *Node) logStart() {
	n.log.Info("started", slog.String("cluster", n.cfg.Cluster), slog.Int("size", n.cfg.Size),
		slog.String("listen", n.cfg.Addr))
	if n.cfg.Insecure {
		n.log.Warn("no secret or certificate is set: " +
			"whoever reaches the port can join and read everything")
	}
}

// logStop logs that the node ended, and why if it was not told to.
func (n *Node) logStop() {
	cause := n.Err()
	if errors.Is(cause, ErrClosed) || errors.Is(cause, ErrLeft) {
		n.log.Info("ended", observe.ErrAttr(n.closeErr))
		return
	}
	n.log.Error("ended by a fault", observe.ErrAttr(errors.Join(cause, n.closeErr)))
}
