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

// service notifies systemd by sd_notify(3), if systemd started the process. A unit of Type=notify
// counts as started when its node is an active member that may vote. So a script that runs
// `systemctl restart` on one node after another does a rolling restart. A provisional leader counts
// as started too: if hosts are set up one by one, the first must not wait for the second.
type service struct{ log *slog.Logger }

// notify sends a state of sd_notify(3) and reports whether it succeeded. It does nothing without
// systemd.
func (s service) notify(state string) bool {
	_, err := systemd.SdNotify(false, state)
	if err != nil {
		s.log.Warn("sd_notify failed", slog.Any("error", err))
	}
	return err == nil
}

// joined notifies systemd when the node may vote, and then of the leader and the number of active
// members at each change until ctx ends. It does not block.
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
		if !s.notify(systemd.SdNotifyReady) {
			return
		}
		size, last := node.Status().Size, ""
		for range node.Events(ctx) {
			now := cluster.Snapshot{View: node.View(), Size: size}.String()
			if now != last && !s.notify("STATUS="+now) {
				return
			}
			last = now
		}
	}()
}

func (s service) leaving() { s.notify(systemd.SdNotifyStopping + "\nSTATUS=leaving the cluster") }
