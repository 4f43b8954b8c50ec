// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildFIPS builds athena with the certified FIPS 140-3 module of this Go, and returns its path.
func buildFIPS(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	certified := filepath.Join(strings.TrimSpace(string(root)), "lib", "fips140", "certified.txt")
	if _, err := os.Stat(certified); err != nil {
		t.Skipf("this Go has no certified FIPS 140-3 module: %v", err)
	}
	path := filepath.Join(t.TempDir(), "athena")
	build := exec.Command("go", "build", "-o", path, "./cmd/athena")
	build.Dir, build.Env = "..", append(os.Environ(), "GOFIPS140=certified")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/athena: %v\n%s", err, out)
	}
	return path
}

// TestProcessFIPS runs clusters with two processes in a FIPS 140-3 mode. The third is the ordinary
// program, which never leads. They elect a leader, keep a lock for longer than it lasts without
// renewal, and answer athena status. In the mode "only", other algorithms fail.
func TestProcessFIPS(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	path := buildFIPS(t)
	for _, transport := range []string{"tls", "quic"} {
		for _, mode := range []string{"on", "only"} {
			t.Run(transport+" "+mode, func(t *testing.T) {
				t.Parallel()
				testFIPS(t, path, transport, mode)
			})
		}
	}
}

func testFIPS(t *testing.T, path, transport, mode string) {
	c := newNodes(t, 3)
	begin := func(args ...string) *process {
		cmd := exec.Command(path, args...)
		cmd.Env = []string{"GODEBUG=fips140=" + mode}
		return startCommand(t, nil, cmd)
	}
	flags := append([]string{"--transport", transport, "--admin-write"}, leaseFlags...)
	begin(c.flags(1, flags...)...)
	begin(c.flags(2, flags...)...)
	c.start(3, append(flags, "--preference", "never")...)
	c.settle(1, 2, 3)
	lock := begin("lock", "a", "--admin", c.admin(1), "--", "sh", "-c", "sleep 3; echo $ATHENA_TOKEN")
	if code := lock.wait(); code != 0 || strings.TrimSpace(lock.stdout.String()) == "" {
		t.Errorf("lock: exit code %d, token %q", code, &lock.stdout)
	}
	status := begin("status", "--admin", c.admin(2))
	if code := status.wait(); code != 0 ||
		!strings.Contains(status.stdout.String(), "3 of 3 members active") {
		t.Errorf("status: exit code %d\n%s", code, &status.stdout)
	}
	if transport == "tls" {
		wantKeyExchange(t, c.addrs[0], "handshake failure")
		wantKeyExchange(t, c.addrs[2], "no application protocol")
	}
}

// wantKeyExchange checks the error of a node at a handshake that offers only X25519, which Go does
// not allow in a FIPS 140-3 mode. A node that allows it finds that the client has another protocol.
func wantKeyExchange(t *testing.T, addr, want string) {
	t.Helper()
	_, err := tls.Dial("tcp", addr, &tls.Config{
		InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519},
		NextProtos: []string{"none"},
	})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("handshake with X25519 at %s: %v, want %q", addr, err, want)
	}
}
