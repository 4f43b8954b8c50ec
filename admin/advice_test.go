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
)

// TestListenAdvises what to do where the system refuses.
func TestListenAdvises(t *testing.T) {
	_, noFolder := Listen("unix:" + filepath.Join(t.TempDir(), "nowhere", "admin"))
	kept := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)}
	other := errors.New("other")
	for _, c := range []struct {
		err, is error
		want    string
	}{
		{noFolder, fs.ErrNotExist, "a folder that is there"},
		{advised(&fs.PathError{Op: "mkdir", Path: "/d", Err: fs.ErrPermission}),
			fs.ErrPermission, "this user may write to"},
		{advised(kept), fs.ErrPermission, "ports below 1024"},
		{advised(other), other, "other"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want %v and %q in it", c.err, c.is, c.want)
		}
	}
}
