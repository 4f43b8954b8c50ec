// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"os"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/athena-go/athena/cluster"
)

// service tells systemd, where that started the process, how it gets on. A unit of
// Type=notify is started when the node is an active member and may vote for a new leader:
// `systemctl restart` of one node after the other is then a rolling restart. One that
// leads provisionally is started too: where hosts are set up one after the other, nobody
// starts the second before the first has.
type service struct{ log *slog.Logger }

// tell sends a state of sd_notify(3), and reports whether more may be told. Without
// systemd it does nothing.
func (s service) tell(state string) bool {
	_, err := systemd.SdNotify(false, state)
	if err != nil {
		s.log.Warn("systemd is not told", slog.Any("error", err))
	}
	return err == nil
}

// joined says that the node is a member that votes, and from then on who leads, until
// ctx ends. It returns at once.
func (s service) joined(ctx context.Context, node *cluster.Node) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	go func() {
		select {
		case <-time.After(node.Status().VoteWait):
		case <-ctx.Done():
			return
		}
		if !s.tell(systemd.SdNotifyReady) {
			return
		}
		for e := range node.Events(ctx) {
			switch e.(type) {
			case cluster.Snapshot, cluster.LeaderChanged:
				if !s.tell("STATUS=" + e.String()) {
					return
				}
			}
		}
	}()
}

func (s service) leaving() { s.tell(systemd.SdNotifyStopping + "\nSTATUS=leaving the cluster") }
