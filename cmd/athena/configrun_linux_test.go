// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// unprivileged is the id of a user that owns no files.
const unprivileged = 65534

// asUnprivileged calls a function as an unprivileged user: root is not subject to permissions.
func (s scene) asUnprivileged(do func()) {
	s.t.Helper()
	if os.Geteuid() != 0 {
		do()
		return
	}
	s.must(filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, unprivileged, unprivileged)
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread exits with the goroutine
		if err := unix.Setfsuid(unprivileged); err != nil {
			s.t.Errorf("act as another user: %v", err)
			return
		}
		do()
	}()
	<-done
}

// TestRunAndCheckAgreeOnPermissions checks that both verbs report missing permissions before they
// create anything.
func TestRunAndCheckAgreeOnPermissions(t *testing.T) {
	lock := func(name string, mode fs.FileMode) func(s scene) {
		return func(s scene) {
			s.must(os.MkdirAll(s.path(name), 0o700))
			s.chmod(name, mode)
			s.t.Cleanup(func() { s.chmod(name, 0o700) })
		}
	}
	const whose = "; this process runs as user …"
	for _, r := range []refusal{
		{"data directory below a folder that may not be written to", []string{"data-dir: @/l/a/b"},
			lock("l", 0o500), "@/athena.yaml:6: data-dir @/l/a/b: store: write to @/l: permission denied" +
				whose, cli.ExitFailed},
		{"data directory that may not be written to", nil, lock("data", 0o500),
			"@/athena.yaml:5: data-dir @/data: store: write to @/data: permission denied" + whose,
			cli.ExitFailed},
		{"data directory that may not be passed", []string{"data-dir: @/l/a"}, lock("l", 0),
			"@/athena.yaml:6: data-dir @/l/a: store: stat @/l/a: permission denied" + whose, cli.ExitFailed},
		{"state that may not be read", nil, func(s scene) {
			lock("data", 0o700)(s)
			s.write("data/athena.state", "")
			s.chmod("data/athena.state", 0)
		}, "@/athena.yaml:5: data-dir @/data: store: open @/data/athena.state: permission denied" + whose,
			cli.ExitFailed},
		{"lock that may not be written to", nil, func(s scene) {
			lock("data", 0o700)(s)
			s.write("data/athena.lock", "")
			s.chmod("data/athena.lock", 0o400)
		}, "@/athena.yaml:5: data-dir @/data: store: write to @/data/athena.lock: permission denied" +
			whose, cli.ExitFailed},
		{"traces below a folder that may not be written to", []string{"flight-recorder: @/l/a"},
			lock("l", 0o500), "@/athena.yaml:7: flight-recorder: write to @/l: permission denied" + whose,
			cli.ExitFailed},
		{"traces into a folder that may not be written to", []string{"flight-recorder: @/l"},
			lock("l", 0o500), "@/athena.yaml:7: flight-recorder: write to @/l: permission denied" + whose,
			cli.ExitFailed},
		{"admin in a folder that may not be written to", []string{"admin: unix:@/l/a"},
			lock("l", 0o500), "@/athena.yaml:6: admin: admin: listen on unix:@/l/a: write to @/l: " +
				"permission denied: choose a path in a directory that this user may write to", cli.ExitFailed},
		{"secret that may not be read", nil, func(s scene) { s.chmod("secret", 0) },
			"@/athena.yaml:4: secret-file: open @/secret: permission denied: the user …", cli.ExitUsage},
	} {
		t.Run(r.name, func(t *testing.T) {
			s := newScene(t)
			path := s.file(r)
			r.harm(s)
			before := s.tree()
			s.asUnprivileged(func() { s.wantRefusal(r, path) })
			s.wantUnchanged(before)
		})
	}
}
