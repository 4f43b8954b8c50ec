// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/athena-go/athena/internal/adminapi"
)

// TestListenError checks that system errors come with a remedy.
func TestListenError(t *testing.T) {
	kept := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)}
	other := errors.New("other")
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "mkdir", Path: "/d", Err: fs.ErrPermission}, "this user may write to"},
		{kept, "ports below 1024"},
		{other, "other"},
	} {
		got := adminapi.ListenError("127.0.0.1:80", c.err)
		if !strings.Contains(got.Error(), c.want) ||
			errors.Is(got, fs.ErrPermission) != errors.Is(c.err, fs.ErrPermission) {
			t.Errorf("%v: got %v, want %q in it", c.err, got, c.want)
		}
	}
}

// TestTryListen checks that TryListen returns the errors of Listen, creates no files and leaves no
// port open.
func TestTryListen(t *testing.T) {
	token := WithToken(new(Token))
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		"7070":                    "must be host:port",
		"192.0.2.1:7070":          "choose an address of this machine",
		"nobody.onion:7070":       "choose an address of this machine",
		"unix:" + dir + "/none/a": dir + "/none is not a directory: create it",
		"unix:" + file:            "the file exists and is not a socket",
		"unix:" + file + "/a":     file + " is not a directory",
	} {
		tried := adminapi.TryListen(addr, true)
		if tried == nil || !strings.Contains(tried.Error(), want) {
			t.Errorf("%s: TryListen: %v, want %q in it", addr, tried, want)
			continue
		}
		if _, err := Listen(addr, token); err == nil || err.Error() != tried.Error() {
			t.Errorf("%s: Listen: %v, TryListen: %v", addr, err, tried)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "unix:" + filepath.Join(dir, "a")} {
		if err := adminapi.TryListen(addr, false); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
		l, err := Listen(addr)
		if err != nil {
			t.Fatalf("%s, Listen after TryListen: %v", addr, err)
		}
		defer l.Close()
		if err := adminapi.TryListen(AddrOf(l), false); err != nil {
			t.Errorf("%s, in use: %v, want no error", AddrOf(l), err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v, want only the file and the socket in use", left, err)
	}
}
