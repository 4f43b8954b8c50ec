// SPDX-License-Identifier: Apache-2.0

package test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// sumsPath names the file with a line for each golden folder: its path and its checksum.
const sumsPath = "test/testdata/golden.sum"

// goldenPlaces contain a golden folder for each release.
var goldenPlaces = []string{"internal/store/testdata", "internal/wire/testdata"}

// releaseHeading matches the heading of a release in CHANGELOG.md.
var releaseHeading = regexp.MustCompile(`(?m)^## \[?v?(\d+\.\d+\.\d+)\b`)

// TestMakeBuildHasTheCommit checks that make build stamps the program with its commit, which athena
// version and athena members show.
func TestMakeBuildHasTheCommit(t *testing.T) {
	t.Parallel()
	if err := exec.Command("git", "-C", "..", "rev-parse", "HEAD").Run(); err != nil {
		t.Skip("this is not a checkout, or git is not installed")
	}
	run := exec.Command("make", "-s", "-C", "..", "build", "GO=echo")
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), " -buildvcs=true ") {
		t.Errorf("%v: make build runs go %s; want -buildvcs=true", err, out)
	}
}

// checkGolden returns what is wrong with the golden folders of a tree: each release of the
// changelog has one in each place, and a folder never differs from its checksum.
func checkGolden(tree fs.FS) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	text, err := fs.ReadFile(tree, "CHANGELOG.md")
	if err != nil {
		fault("%v", err)
	}
	released := map[string]bool{}
	for _, m := range releaseHeading.FindAllStringSubmatch(string(text), -1) {
		released["v"+m[1]] = true
	}
	text, err = fs.ReadFile(tree, sumsPath)
	if err != nil {
		fault("%v", err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		folder, sum, _ := strings.Cut(strings.TrimSpace(line), " ")
		sums[folder] = sum
	}
	for _, place := range goldenPlaces {
		folders, err := fs.Glob(tree, place+"/v*")
		if err != nil {
			fault("%v", err)
		}
		for _, folder := range folders {
			sum := sumFolder(tree, folder)
			switch {
			case sum == sums[folder]:
			case released[path.Base(folder)]:
				fault("%s changed after its release: restore it, and write the files of the next release",
					folder)
			default:
				fault("%s changed; it is not released yet, so put into %s: %s %s", folder, sumsPath,
					folder, sum)
			}
			delete(sums, folder)
		}
		for release := range released {
			if !slices.Contains(folders, place+"/"+release) {
				fault("%s has no golden files in %s", release, place)
			}
		}
	}
	for folder := range sums {
		fault("%s is missing, but %s contains it", folder, sumsPath)
	}
	return faults
}

// sumFolder returns the checksum of the names and contents of the files in a folder.
func sumFolder(tree fs.FS, folder string) string {
	h := sha256.New()
	err := fs.WalkDir(tree, folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		fmt.Fprintf(h, "%s %x\n", strings.TrimPrefix(name, folder), sha256.Sum256(content))
		return err
	})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func TestGoldenFolders(t *testing.T) {
	t.Parallel()
	for _, fault := range checkGolden(os.DirFS("..")) {
		t.Error(fault)
	}
}

// TestGoldenFoldersPlanted changes one file of a tree with two releases at a time.
func TestGoldenFoldersPlanted(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"CHANGELOG.md": "## Unreleased\n\n## [0.2.0] - 2027-01-01\n\n## v0.1.0\n",
	}
	var names []string
	for _, place := range goldenPlaces {
		names = append(names, place+"/v0.1.0/a", place+"/v0.2.0/a", place+"/v0.3.0/a")
	}
	for _, name := range names {
		files[name] = name
	}
	makeTree := func() fstest.MapFS {
		tree := fstest.MapFS{}
		for name, content := range files {
			tree[name] = &fstest.MapFile{Data: []byte(content)}
		}
		var sums strings.Builder
		for _, name := range names {
			fmt.Fprintln(&sums, path.Dir(name), sumFolder(tree, path.Dir(name)))
		}
		tree[sumsPath] = &fstest.MapFile{Data: []byte(sums.String())}
		return tree
	}
	for _, c := range []struct {
		want  string
		plant func(fstest.MapFS)
	}{
		{"", func(fstest.MapFS) {}},
		{"changed after its release", func(f fstest.MapFS) { f[names[0]].Data = []byte("b") }},
		{"changed after its release", func(f fstest.MapFS) {
			f[path.Dir(names[1])+"/b"] = &fstest.MapFile{}
		}},
		{"is not released yet", func(f fstest.MapFS) { f[names[2]].Data = []byte("b") }},
		{"v0.1.0 has no golden files", func(f fstest.MapFS) { delete(f, names[0]) }},
		{"is missing, but", func(f fstest.MapFS) { delete(f, names[2]) }},
		{"v0.4.0 has no golden files", func(f fstest.MapFS) {
			f["CHANGELOG.md"].Data = []byte("## [0.4.0]\n")
		}},
		{"changed after its release", func(f fstest.MapFS) { f[sumsPath].Data = nil }},
	} {
		tree := makeTree()
		c.plant(tree)
		found := strings.Join(checkGolden(tree), "\n")
		if (c.want == "") != (found == "") || !strings.Contains(found, c.want) {
			t.Errorf("found %q, want %q", found, c.want)
		}
	}
}

// TestPreviousRelease checks that test/previous.txt names the newest release before this commit.
func TestPreviousRelease(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("previous.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	previous := lines[len(lines)-1]
	tag, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*",
		"HEAD^").Output()
	if err != nil {
		t.Skipf("no release is tagged, or this is no clone with its history; %s stands for one", previous)
	}
	if want := strings.TrimSpace(string(tag)); previous != want {
		t.Errorf("previous.txt names %s, but the newest release is %s", previous, want)
	}
}
