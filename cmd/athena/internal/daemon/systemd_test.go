// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// TestSystemdThatIsGoneIsToldOf: the one who tells it learns that, and stops.
func TestSystemdThatIsGoneIsToldOf(t *testing.T) {
	var log bytes.Buffer
	s := service{newLogger(&log, "json", "info")}
	t.Setenv("NOTIFY_SOCKET", "")
	if !s.tell(systemd.SdNotifyReady) || log.Len() > 0 {
		t.Errorf("without systemd: got %q, want nothing", &log)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	if s.tell(systemd.SdNotifyReady) {
		t.Error("a socket that is gone: got true")
	}
	if got := log.String(); strings.Count(got, `"message":"systemd is not told"`) != 1 {
		t.Errorf("got %q, want one line", got)
	}
}
