// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// TestFailedNotificationIsLogged checks that a failure is logged, and that no further notifications
// are sent.
func TestFailedNotificationIsLogged(t *testing.T) {
	var log bytes.Buffer
	s := service{newLogger(&log, "json", slog.LevelInfo)}
	t.Setenv("NOTIFY_SOCKET", "")
	if !s.notify(systemd.SdNotifyReady) || log.Len() > 0 {
		t.Errorf("without systemd: got %q, want nothing", &log)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	if s.notify(systemd.SdNotifyReady) {
		t.Error("a socket that is gone: got true")
	}
	if got := log.String(); strings.Count(got, `"message":"sd_notify failed"`) != 1 {
		t.Errorf("got %q, want one line", got)
	}
}
