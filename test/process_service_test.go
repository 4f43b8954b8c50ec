// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestProcessNotifiesSystemd checks what the node reports to systemd, in the format of
// sd_notify(3): that it is a member, which node leads, and that it is leaving.
func TestProcessNotifiesSystemd(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 1)
	path := filepath.Join(c.dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	var mu sync.Mutex
	var told []string
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := socket.Read(b)
			if err != nil {
				return
			}
			mu.Lock()
			told = append(told, string(b[:n]))
			mu.Unlock()
		}
	}()
	hears := func(want string) {
		t.Helper()
		eventually(t, "systemd hears "+want, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(strings.Join(told, "\n"), want)
		})
	}
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	env, err := exec.LookPath("env")
	if err != nil {
		t.Skip("env is not installed")
	}
	p := startCommand(t, nil, exec.Command(env,
		append([]string{"NOTIFY_SOCKET=" + path, bin}, c.flags(1)...)...))
	hears("READY=1")
	hears("STATUS=1 of 1 members active, leader of version 1 is n1")
	p.signal(syscall.SIGTERM)
	hears("STOPPING=1\nSTATUS=leaving the cluster")
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	mu.Lock()
	defer mu.Unlock()
	if told[0] != "READY=1" {
		t.Errorf("first notification %q, want READY=1", told[0])
	}
}
