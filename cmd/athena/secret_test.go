// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/tlsfiles"
)

// TestSecretNew checks that secret new creates a file that athena run accepts, and never overwrites
// one.
func TestSecretNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a secret")
	code, stdout, stderr := athena("secret", "new", path)
	if code != cli.ExitDone || stdout != "" ||
		!strings.Contains(stderr, "--secret-file '"+path+"'\n") {
		t.Fatalf("code %d, %q, %q, want %d and the next step", code, stdout, stderr, cli.ExitDone)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(string(text), "\n")); err != nil ||
		len(b) != cluster.MinSecretBytes || strings.Contains(stderr, strings.TrimSpace(string(text))) {
		t.Errorf("the file has %d bytes of base64, %v, and standard error %q", len(b), err, stderr)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info.Mode(), err)
	}
	if _, err := tlsfiles.ReadSecret(path); err != nil {
		t.Errorf("a node refuses it: %v", err)
	}

	code, _, stderr = athena("secret", "new", path)
	if after, err := os.ReadFile(path); code != cli.ExitFailed || err != nil ||
		string(after) != string(text) || !strings.Contains(stderr, "already exists") {
		t.Errorf("again: code %d, %q, %v", code, stderr, err)
	}
	code, _, stderr = athena("secret", "new", filepath.Join(path+"s", "new"))
	if code != cli.ExitFailed || !strings.Contains(stderr, "create the directory "+path+"s first") {
		t.Errorf("no folder: code %d, %q", code, stderr)
	}
}

// TestSecretToStandardOutput checks that secret new prints one line, which differs each time.
func TestSecretToStandardOutput(t *testing.T) {
	_, first, _ := athena("secret", "new")
	code, second, stderr := athena("secret", "new")
	if code != cli.ExitDone || len(first) != 45 || strings.Count(first, "\n") != 1 ||
		first == second ||
		stderr != "" {
		t.Errorf("code %d, %q, then %q, error %q", code, first, second, stderr)
	}
	wantRefused(t, []usageCase{
		{"two files", []string{"secret", "new", "a", "b"}, []string{`"b": at most one FILE`}},
		{"no name", []string{"secret", "new", ""}, []string{"FILE is empty"}},
		{"nothing", []string{"secret"}, []string{"new"}},
		{"argument", []string{"secret", "old"}, []string{`"old"`}},
	})
}
