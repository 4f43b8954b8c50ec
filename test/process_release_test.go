// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestProcessReleaseIsReproducible: the same sources in two folders give the same
// bytes, with the flags of scripts/release.sh but for the commit, which a copy of the
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
