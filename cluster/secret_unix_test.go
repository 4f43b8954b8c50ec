// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package cluster

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadSecretDoesNotWaitForAPipe that nobody writes to.
func TestReadSecretDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(path); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("got %v, want that it is no regular file", err)
	}
}
