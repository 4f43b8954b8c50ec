// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/athena-go/athena/transport/quicnet"
)

// TestCheckAddr checks that CheckAddr returns the error of Start and leaves no port in use.
func TestCheckAddr(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:7001":    "Addr 192.0.2.1:7001: not an address of this machine: listen on 0.0.0.0 and",
		"nobody.onion:7001": "Addr nobody.onion:7001: not an address of this machine: listen on 0.0.0.0",
	} {
		c := Config{Addr: addr, Size: 1, InsecureAnywhere: true}
		checked := c.CheckAddr()
		if checked == nil || !strings.Contains(checked.Error(), want) {
			t.Errorf("CheckAddr returns %v, want %q in it", checked, want)
			continue
		}
		_, err := Start(t.Context(), c, WithLogger(slog.New(slog.DiscardHandler)))
		if err == nil || err.Error() != checked.Error() {
			t.Errorf("Start returns %v, CheckAddr %v", err, checked)
		}
	}
	taken, err := quicnet.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := taken.LocalAddr().String()
	for _, when := range []string{"in use", "free"} {
		if err := (Config{Addr: addr}).CheckAddr(); err != nil {
			t.Errorf("%s: got %v, want no fault", when, err)
		}
		taken.Close()
	}
}

// TestForbiddenPort checks that the error for a privileged port names the remedy, and that other
// errors stay unchanged.
func TestForbiddenPort(t *testing.T) {
	c := Config{Addr: "127.0.0.1:80"}
	kept := &net.OpError{Op: "listen", Net: "udp", Err: os.NewSyscallError("bind", syscall.EACCES)}
	got := c.addrError(kept)
	if !strings.Contains(got.Error(), "Addr 127.0.0.1:80: ports below 1024 need a privilege") ||
		!errors.Is(got, fs.ErrPermission) {
		t.Errorf("got %v, want what to do", got)
	}
	if got := c.addrError(errBoom); got != errBoom {
		t.Errorf("got %v, want %v", got, errBoom)
	}
}
