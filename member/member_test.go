// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"testing"

	"github.com/athena-go/athena/member"
)

func TestIsPrintable(t *testing.T) {
	for s, want := range map[string]bool{
		"": true, "n1": true, "Größe 3, 東京": true, "a b": true, "\"quoted\"": true,
		"a\nb": false, "a\rb": false, "a\tb": false, "\x00": false, "a\x1b[2J": false, "\x7f": false,
		"\u0085":       false, // next line
		"\u009b2J":     false, // ESC [ as a single character
		"a\u2028b":     false, // line separator
		"a\u202eb":     false, // right-to-left override
		"a\u200bb":     false, // zero-width space
		"a\u00a0b":     false, // no-break space
		"\ufeffn1":     false,
		"a\xffb":       false,
		"\xed\xa0\x80": false, // half of a surrogate pair
	} {
		if got := member.IsPrintable(s); got != want {
			t.Errorf("IsPrintable(%q): got %t, want %t", s, got, want)
		}
	}
}
