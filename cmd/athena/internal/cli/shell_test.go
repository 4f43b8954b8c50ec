// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSelf checks that the word from Self runs the program from another directory.
func TestSelf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	called := os.Args[0]
	defer func() { os.Args[0] = called }()
	for name, want := range map[string]string{
		"athena":      "athena",
		"/opt/athena": "/opt/athena",
		"bin/athena":  ShellWord(dir + "/bin/athena"),
	} {
		os.Args[0] = name
		if got := Self(); got != want {
			t.Errorf("called as %s: %s, want %s", name, got, want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"127.0.0.1:7070": "127.0.0.1:7070", "unix:/run/a_b-c": "unix:/run/a_b-c",
		"": "''", "a b": "'a b'", "a'b": `'a'\''b'`, "$HOME": "'$HOME'", "~": "'~'", "é": "'é'",
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", word, got, want)
		}
	}
}
