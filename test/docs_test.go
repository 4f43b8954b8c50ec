// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	goBlock      = regexp.MustCompile("(?s)```go\n(.*?)```")
	plainBlock   = regexp.MustCompile("(?s)\n\n```\n(.*?)```")
	jsonBlock    = regexp.MustCompile("(?s)```json\n(.*?)```")
)

// TestLinks checks that every relative link of a document has a target.
func TestLinks(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	for _, f := range tree.texts {
		if path.Ext(f.path) != ".md" {
			continue
		}
		for i, line := range f.lines {
			for _, m := range markdownLink.FindAllStringSubmatch(line, -1) {
				target, _, _ := strings.Cut(m[1], "#")
				if target == "" || strings.Contains(target, "://") {
					continue
				}
				followed++
				if _, err := os.Stat(filepath.Join("..", path.Dir(f.path), target)); err != nil {
					t.Errorf("%s: link to %s: %v", f.at(i), target, err)
				}
			}
		}
	}
	if followed == 0 {
		t.Error("no link was found: the test reads the wrong folder")
	}
}

// TestGoBlocks checks that all Go code in documents is part of a compiled file.
func TestGoBlocks(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, p := range tree.packages {
		for _, f := range p.files {
			sources = append(sources, strings.Join(f.lines, "\n")+"\n")
		}
	}
	found := map[string]int{}
	for _, f := range tree.texts {
		if path.Ext(f.path) != ".md" {
			continue
		}
		text := strings.Join(f.lines, "\n")
		for _, block := range plainBlock.FindAllString(text, -1) {
			if strings.Contains(block, "\nfunc ") || strings.Contains(block, " := ") {
				t.Errorf("%s: Go code without the marker ```go:%s", f.path, block)
			}
		}
		for _, block := range goBlock.FindAllStringSubmatch(text, -1) {
			found[f.path]++
			isPart := func(source string) bool { return strings.Contains(source, block[1]) }
			if !slices.ContainsFunc(sources, isPart) {
				t.Errorf("%s: no compiled file contains this code:\n%s", f.path, block[1])
			}
		}
	}
	for _, page := range []string{"README.md", "docs/guide.md"} {
		if found[page] == 0 {
			t.Errorf("%s: no Go code was found: the test reads the wrong folder", page)
		}
	}
}

// TestJSONBlocks checks that all JSON in documents is valid.
func TestJSONBlocks(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, f := range tree.texts {
		if path.Ext(f.path) != ".md" {
			continue
		}
		for _, block := range jsonBlock.FindAllStringSubmatch(strings.Join(f.lines, "\n"), -1) {
			blocks++
			decoder := json.NewDecoder(strings.NewReader(block[1]))
			for err = nil; err == nil; {
				var value any
				err = decoder.Decode(&value)
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v in\n%s", f.path, err, block[1])
			}
		}
	}
	if blocks == 0 {
		t.Error("no JSON was found: the test reads the wrong folder")
	}
}

// TestDocsQuoteReasons checks that a node can report each reason that docs/admin.md explains. For
// each reason, the code must contain every part of the text before the first number.
func TestDocsQuoteReasons(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, p := range tree.packages {
		switch p.path {
		case "cluster", "internal/diagnosis", "internal/mesh", "internal/message", "transport":
		default:
			continue
		}
		for _, f := range p.code() {
			code.WriteString(strings.Join(f.lines, "\n"))
		}
	}
	page, err := os.ReadFile("../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## A node without a leader\n")
	section, _, _ = strings.Cut(section, "\n## ")
	reasons := 0
	for _, m := range regexp.MustCompile("(?m)^- (`.*?`): ").FindAllStringSubmatch(section, -1) {
		for _, reason := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(m[1], -1) {
			reasons++
			text := regexp.MustCompile(`[0-9].*`).ReplaceAllString(reason[1], "")
			for part := range strings.SplitSeq(text, ": ") {
				if !strings.Contains(code.String(), strings.TrimSpace(part)) {
					t.Errorf("docs/admin.md explains %q, but no node reports %q", reason[1], part)
				}
			}
		}
	}
	if reasons < 25 {
		t.Errorf("%d reasons were found, want at least 25: the test reads the wrong page", reasons)
	}
}

// TestFloorsDocumented checks that docs/architecture.md draws every entry of floors, on a line that
// begins with the number of its floor.
func TestFloorsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for number, floor := range floors {
		line := regexp.MustCompile(fmt.Sprintf(`(?m)^%d  (.*)$`, number)).FindSubmatch(page)
		if line == nil {
			t.Errorf("docs/architecture.md draws no floor %d, want %q", number, floor)
			continue
		}
		drawn := strings.Fields(string(line[1]))
		for _, pattern := range floor {
			name := strings.TrimSuffix(pattern, "...")
			if !slices.ContainsFunc(drawn, func(s string) bool { return strings.HasPrefix(s, name) }) {
				t.Errorf("docs/architecture.md draws %q on floor %d, want %s too", drawn, number, pattern)
			}
		}
	}
}

// pastedVersion matches a version of Athena in a command or a file that a user copies.
var pastedVersion = regexp.MustCompile(`athena[\w./-]*(?:@|_|\?ref=)(v\d+\.\d+\.\d+)|` +
	`newTag: (v\d+\.\d+\.\d+)`)

// untaggedVersions returns the versions in a text that a user would ask for in vain. The version of
// a module that is replaced by a clone is v0.0.0.
func untaggedVersions(text string, tags []string) (missing []string) {
	for _, m := range pastedVersion.FindAllStringSubmatch(text, -1) {
		if v := m[1] + m[2]; v != "v0.0.0" && !slices.Contains(tags, v) {
			missing = append(missing, v)
		}
	}
	return missing
}

// TestVersionsAreTagged checks that each version in a command of a page is a tag of git.
func TestVersionsAreTagged(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "-C", "..", "tag", "--list", "v*").Output()
	if err != nil {
		t.Skipf("git tag: %v: cannot list the releases", err)
	}
	for _, f := range tree.texts {
		if path.Ext(f.path) == ".go" {
			continue
		}
		text := strings.Join(f.lines, "\n")
		for _, v := range untaggedVersions(text, strings.Fields(string(out))) {
			t.Errorf("%s: %s is not tagged: give commands that work without it", f.path, v)
		}
	}
	const planted = "go get github.com/athena-go/athena/cluster@v0.3.0\nathena_v0.2.0_linux.tar.gz\n" +
		"https://github.com/athena-go/athena//deploy?ref=v0.1.0\nnewTag: v0.4.0\nquic-go v0.63.0"
	got := untaggedVersions(planted, []string{"v0.2.0"})
	if want := []string{"v0.3.0", "v0.1.0", "v0.4.0"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// TestNoGoRunInBackground checks that no page or comment starts a program with go run in the
// background: a signal to the job would only end the go command.
func TestNoGoRunInBackground(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	background := regexp.MustCompile(`\bgo run\b.*&\s*$`)
	for _, f := range tree.texts {
		for i, line := range f.lines {
			if background.MatchString(line) {
				t.Errorf("%s: build the program and start that: a signal ends only go run", f.at(i))
			}
		}
	}
}
