// SPDX-License-Identifier: Apache-2.0

//go:build unix

package programs

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// NewPostgreSQL prepares the data of a PostgreSQL server in dir/data. The superuser postgres
// needs no password. The function command returns a command that runs a program of PostgreSQL in
// dir. If PostgreSQL is not installed, the test is skipped.
func NewPostgreSQL(t testing.TB) (dir string, command func(name string, args ...string) *exec.Cmd) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the path on Debian
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed: Debian's postgresql (make tools)")
	}
	dir, err := os.MkdirTemp("", "pg") // short, since the path of a socket has a maximum length
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var as *syscall.Credential
	if os.Getuid() == 0 { // the server refuses to run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("PostgreSQL does not run as root, and there is no user postgres")
		}
		uid, _ := strconv.Atoi(u.Uid) // on Unix, ids are numbers
		gid, _ := strconv.Atoi(u.Gid)
		as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	command = func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(filepath.Dir(found[len(found)-1]), name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	out, err := command("initdb", "-D", filepath.Join(dir, "data"), "-A", "trust", "-U", "postgres",
		"--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	return dir, command
}
