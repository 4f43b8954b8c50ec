// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden file of goldenRelease")

// goldenRelease is the release whose golden file contains the bytes of this program. It never
// changes once it is released: then a change of the bytes takes a new folder for the next release
// (docs/compatibility.md).
const goldenRelease = "v0.1.0"

// TestGoldenState compares the state file, without its room, with the file in testdata.
func TestGoldenState(t *testing.T) {
	path := filepath.Join("testdata", goldenRelease, stateName)
	content, ends := threeEntries(t)
	end := ends[len(ends)-1]
	if *update {
		if err := os.WriteFile(path, content[:end], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(content[:end])); diff != "" {
		t.Errorf("the content changed (-file +now):\n%s", diff)
	}
	checkParse(t, path, append(want, content[end:]...), three()[2])
}

// TestReleasedStates reads the file of every release. If this program writes the same format, the
// entries must be equal when it writes them, so that programs of the release can read them.
func TestReleasedStates(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "v*", stateName))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files of a release: %v", err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var format, size int
		if _, err := fmt.Fscanf(bytes.NewReader(content), magic+" %d %d\n", &format, &size); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		room := strings.Repeat(emptySector(), (size-len(content))/sectorBytes)
		if _, err := parseContent([]byte(string(content) + room)); err != nil {
			t.Errorf("%s: %v", path, err)
		} else if fmt.Sprint(format) == version {
			checkEntries(t, path, content)
		}
	}
}

// checkEntries reads the entries of a file, writes each again, and compares the bytes.
func checkEntries(t *testing.T, path string, content []byte) {
	t.Helper()
	at := bytes.IndexByte(content, '\n') + 1
	root := string(content[:at])
	var c Content
	for first := true; at < len(content); first = false {
		was, end := entryAt(content, root, at)
		next, err := c.nextContent(was)
		if err != nil {
			t.Fatalf("%s, byte %d: %v", path, at, err)
		}
		if is := payload(t, c, next); is != string(was) {
			t.Errorf("%s, byte %d (-release +now):\n%s", path, at, cmp.Diff(string(was), is))
		}
		if first {
			root = string(content[at : at+digestBytes])
		}
		c, at = next, end
	}
}
