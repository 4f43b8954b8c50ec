// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
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
)

// TestLinks follows every link of a document that stays in the repository.
func TestLinks(t *testing.T) {
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
		t.Error("no link was found: the test looks at the wrong place")
	}
}

// TestReadmeProgram wants the program of the README to be the one that is
// compiled as an example.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := goBlock.FindSubmatch(readme)
	if block == nil {
		t.Fatal("README.md has no Go program")
	}
	example, err := os.ReadFile("../examples/embed/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if want := string(block[1]); !strings.Contains(string(example), want) {
		t.Errorf("examples/embed/main.go:\n%s\nwant it to hold the program of README.md:\n%s",
			example, want)
	}
}

// TestFloorsDocumented wants the floors that are held to be those that
// docs/architecture.md draws, each line beginning with its number.
func TestFloorsDocumented(t *testing.T) {
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
