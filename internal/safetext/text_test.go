// SPDX-License-Identifier: Apache-2.0

package safetext

import (
	"strings"
	"testing"
)

func TestOneLine(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{`Size differs: "3" here`, 100, `Size differs: "3" here`},
		{"first\nsecond\n", 100, "first; second"},
		{"a\x1b[2J\r\xffb", 100, "a\\x1b[2J\\r\ufffdb"},
		{"größer", 100, "größer"},
		{"give every node the same secret", 30, "give every node the same..."},
		{strings.Repeat("x", 20), 10, "xxxxxxx..."},
		{"éééééé", 10, "ééé..."},
		{"\x00", 3, "..."},
	} {
		got := OneLine(c.text, c.limit)
		if got != c.want || len(got) > c.limit {
			t.Errorf("OneLine(%q, %d): got %q, want %q", c.text, c.limit, got, c.want)
		}
		if again := OneLine(got, c.limit); again != got {
			t.Errorf("OneLine twice of %q: got %q, want %q", c.text, again, got)
		}
	}
}

// TestPeerTextCannotForgeALine checks that a peer's text becomes one short line, and cannot be
// mistaken for a part of the sentence that contains it.
func TestPeerTextCannotForgeALine(t *testing.T) {
	for _, c := range []struct{ text, field, quoted string }{
		{"orders", "orders", "orders"},
		{"[::1]:7000", "[::1]:7000", "[::1]:7000"},
		{"", "", `""`},
		{"two words", "two words", `"two words"`},
		{`3 here), "x`, `3 here), "x`, `"3 here), \"x"`},
		{"no\n\x1b[31m", `no; \x1b[31m`, `"no\n\x1b[31m"`},
		{strings.Repeat("é", 100), strings.Repeat("é", 62) + "...", strings.Repeat("é", 62) + "..."},
	} {
		if got := PeerText(c.text); got != c.field || len(got) > MaxPeerTextBytes {
			t.Errorf("PeerText(%q): got %q, want %q", c.text, got, c.field)
		}
		if got := QuotePeerText(c.text); got != c.quoted {
			t.Errorf("QuotePeerText(%q): got %s, want %s", c.text, got, c.quoted)
		}
	}
}
