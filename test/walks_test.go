// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	walk = regexp.MustCompile(`(?s)\n\*\*(.*?)\*\*.*?\n\n((?:\d+\. .*?\n)+)`)
	stay = regexp.MustCompile("(?m)^\\d+\\. `([^`]+)` (\\w+)")
)

// declaresName reports whether a file declares the function, method or type.
func declaresName(text, name string) bool {
	return regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type )` + name + `\b`).MatchString(text)
}

// TestWalks checks that each step of a walk in docs/architecture.md names a file that exists and
// declares the given function or type, and that no walk has more than twelve steps.
func TestWalks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(page), "## Four walks")
	part, _, _ = strings.Cut(part, "\n## ")
	walks := walk.FindAllStringSubmatch(part, -1)
	if len(walks) != 4 {
		t.Fatalf("found %d walks, want 4", len(walks))
	}
	for _, w := range walks {
		stays := stay.FindAllStringSubmatch(w[2], -1)
		if lines := strings.Count(w[2], "\n"); len(stays) != lines || lines > 12 {
			t.Errorf("%s: %d steps in %d lines, want at most 12, each with a file and a word",
				w[1], len(stays), lines)
		}
		for _, s := range stays {
			text, err := os.ReadFile(filepath.Join("..", s[1]))
			if err != nil {
				t.Errorf("%s: %v", w[1], err)
			} else if !declaresName(string(text), s[2]) {
				t.Errorf("%s: %s does not declare %s", w[1], s[1], s[2])
			}
		}
	}
}
