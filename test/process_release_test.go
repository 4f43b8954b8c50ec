// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestProcessReleaseIsReproducible checks that builds of the same sources in two folders are
// identical. It uses the flags of scripts/release.sh except for the commit, which a copy of the
// sources lacks.
func TestProcessReleaseIsReproducible(t *testing.T) {
	var programs [2][]byte
	for i := range programs {
		dir := filepath.Join(t.TempDir(), "sources")
		if err := os.CopyFS(dir, os.DirFS("..")); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=",
			"-o", "program", "./cmd/athena")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var err error
		if programs[i], err = os.ReadFile(filepath.Join(dir, "program")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Errorf("two builds differ: %d and %d bytes", len(programs[0]), len(programs[1]))
	}
}

// TestProcessReleaseArchive checks that the archive has everything that a host needs to run a node
// under systemd.
func TestProcessReleaseArchive(t *testing.T) {
	for _, tool := range []string{"git", "tar", "gzip", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool, "is not installed: no release was built")
		}
	}
	dir := filepath.Join(t.TempDir(), "sources")
	if err := os.CopyFS(dir, os.DirFS("..")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	script := "git init -q . && git add -A && " +
		"git -c user.name=n -c user.email=e commit -qm sources && " +
		"scripts/release.sh " + runtime.GOOS + "/" + runtime.GOARCH + " && tar -tzf dist/*.tar.gz"
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{
		"athena", "athena.service", "athena.yaml", "CHANGELOG.md", "LICENSE", "README.md",
	} {
		if !bytes.Contains(out, []byte("/"+name+"\n")) {
			t.Errorf("the archive has no %s:\n%s", name, out)
		}
	}
}
