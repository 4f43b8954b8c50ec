// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// maxTrackedBytes bounds a tracked file: each go get and each clone loads all of them.
const maxTrackedBytes = 256 << 10

// largeFiles lists the tracked files that may be larger, each with its reason.
var largeFiles = map[string]string{
	"test/testdata/axe/axe.min.js": "the accessibility checks of the dashboard, from another project",
}

// programHeads are the first bytes of programs, object files and archives of them.
var programHeads = []string{
	elf.ELFMAG, "MZ", "\xcf\xfa\xed\xfe", "\xce\xfa\xed\xfe", "\xfe\xed\xfa\xcf", "\xca\xfe\xba\xbe",
	"!<arch>\n", "\x00asm",
}

// checkTracked returns a fault for each of the named files that is too large or a program.
func checkTracked(fsys fs.FS, names []string) (faults []string) {
	for _, name := range names {
		content, err := fs.ReadFile(fsys, name)
		switch {
		case err != nil:
			faults = append(faults, fmt.Sprintf("%s: %v", name, err))
		case slices.ContainsFunc(programHeads, func(head string) bool {
			return bytes.HasPrefix(content, []byte(head))
		}):
			faults = append(faults, name+": a built program: remove it from git, and ignore it")
		case len(content) > maxTrackedBytes && largeFiles[name] == "":
			faults = append(faults, fmt.Sprintf("%s: %d bytes, the limit is %d: leave it out, or list "+
				"it in largeFiles with the reason", name, len(content), maxTrackedBytes))
		}
	}
	return faults
}

// TestTrackedFiles checks that git tracks no large file and no program.
func TestTrackedFiles(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("git ls-files: %v: cannot list the tracked files", err)
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	names = slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Lstat("../" + name)
		return err != nil // deleted, but not committed yet
	})
	for _, fault := range checkTracked(os.DirFS(".."), names) {
		t.Error(fault)
	}
	for name := range largeFiles {
		if !slices.Contains(names, name) {
			t.Errorf("largeFiles lists %s, which is not tracked", name)
		}
	}
}

// TestTrackedFilesPlanted checks that checkTracked finds what it forbids, and nothing else.
func TestTrackedFilesPlanted(t *testing.T) {
	t.Parallel()
	large := make([]byte, 300_000)
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"athena", append([]byte(elf.ELFMAG), large...), "a built program"},
		{"bin/small", []byte(elf.ELFMAG), "a built program"},
		{"athena.exe", []byte("MZ..."), "a built program"},
		{"docs/film.gif", large, "300000 bytes"},
		{"test/testdata/axe/axe.min.js", large, ""},
		{"docs/page.md", large[:maxTrackedBytes], ""},
	} {
		found := checkTracked(fstest.MapFS{c.name: {Data: c.content}}, []string{c.name})
		if c.want == "" && len(found) != 0 ||
			c.want != "" && (len(found) != 1 || !strings.Contains(found[0], c.want)) {
			t.Errorf("%s of %d bytes: got %q, want %q", c.name, len(c.content), found, c.want)
		}
	}
}
