// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// TestPageExample checks that the example in the docs passes config check.
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
	wantValid(t, []byte(example))
}

// wantValid checks that a configuration file passes config check without warnings, with a secret
// and a data directory of this test, and on a machine that has its address.
func wantValid(t *testing.T, text []byte) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"secret", "admin-token"} {
		if code, _, stderr := athena("secret", "new", name); code != cli.ExitDone {
			t.Fatalf("secret new: %s", stderr)
		}
	}
	here := strings.NewReplacer("addr: 10.0.0.1:7000\n", "addr: ':7000'\nadvertise: 10.0.0.1:7000\n",
		"/etc/athena/secret", "secret", "/etc/athena/admin-token", "admin-token",
		"10.0.0.1:7070", "127.0.0.1:0", "/var/lib/athena", t.TempDir()).Replace(string(text))
	code, stdout, stderr := athena("config", "check", "--config", configFile(t, here))
	if code != cli.ExitDone || stderr != "" {
		t.Errorf("code %d, %s%s\n%s", code, stdout, stderr, text)
	}
}

// TestExampleFilePasses config check.
func TestExampleFilePasses(t *testing.T) {
	text, err := os.ReadFile("../../examples/athena.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wantValid(t, text)
}
