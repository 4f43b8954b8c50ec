// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// TestPageExample passes config check as it is written.
func TestPageExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/configuration.md has no example")
	}
	passes(t, []byte(example))
}

// passes wants a file to pass config check beside a file that has the secret, on a
// machine that has not its address.
func passes(t *testing.T, text []byte) {
	t.Helper()
	t.Chdir(t.TempDir())
	if code, _, stderr := athena("secret", "new", "secret"); code != cli.ExitDone {
		t.Fatalf("secret new: %s", stderr)
	}
	code, stdout, stderr := athena("config", "check", "--config", configFile(t, string(text)),
		"--data-dir", t.TempDir(), "--addr", ":7000", "--advertise", "10.0.0.1:7000")
	if code != cli.ExitDone || stderr != "" {
		t.Errorf("code %d, %s%s\n%s", code, stdout, stderr, text)
	}
}

// TestExampleFilePasses config check as it is written.
func TestExampleFilePasses(t *testing.T) {
	text, err := os.ReadFile("../../examples/athena.yaml")
	if err != nil {
		t.Fatal(err)
	}
	passes(t, text)
}
