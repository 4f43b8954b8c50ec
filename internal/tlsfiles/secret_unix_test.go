// SPDX-License-Identifier: Apache-2.0

//go:build unix

package tlsfiles

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadSecretDoesNotWaitForAPipe checks that a pipe without a writer is refused.
func TestReadSecretDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v, want that it is not a regular file", err)
	}
}

// TestPrivateFiles checks that only the owner may read a file, or a group if root owns it.
func TestPrivateFiles(t *testing.T) {
	for _, c := range []struct {
		mode        fs.FileMode
		owner, user int
		want        bool
	}{
		{0o600, 1000, 1000, true},
		{0o400, 0, 0, true},
		{0o440, 0, 1000, true},
		{0o640, 0, 1000, true},
		{0o640, 0, 0, false},
		{0o640, 1000, 1000, false},
		{0o640, 1001, 1000, false},
		{0o660, 0, 1000, false},
		{0o644, 0, 1000, false},
	} {
		if got := isPrivateMode(c.mode, c.owner, c.user); got != c.want {
			t.Errorf("mode %04o of %d for %d: got %t, want %t", c.mode, c.owner, c.user, got, c.want)
		}
	}
}
