// SPDX-License-Identifier: Apache-2.0

//go:build unix

package programs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BuildProgram builds a public program, which go.mod must list as a tool, and returns the path of
// the binary. The changes are pairs of old and new text in its main.go. They use the functions of
// testdata/file, which becomes a part of the program.
func BuildProgram(t testing.TB, program, file string, changes ...string) string {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	sources, err := filepath.Glob(filepath.Join(run("list", "-f", "{{.Dir}}", program), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	// The package exists only in the overlay, inside this module, so that it can import the module.
	files, dir := map[string]string{}, t.TempDir()
	for _, source := range append(sources, filepath.Join(here, "testdata", file)) {
		name := filepath.Base(source)
		if name == "main.go" {
			changed := filepath.Join(dir, name)
			replaceText(t, source, changed, changes)
			source = changed
		}
		files[filepath.Join(here, "program", name)] = source
	}
	overlay, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay"), overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "program")
	run("build", "-overlay", filepath.Join(dir, "overlay"), "-o", binary, "./program")
	return binary
}

// replaceText copies a file with changes. Each old text must occur once.
func replaceText(t testing.TB, from, to string, changes []string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(changes); i += 2 {
		if n := strings.Count(text, changes[i]); n != 1 {
			t.Fatalf("%s contains %d times, want once:\n%s", from, n, changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
