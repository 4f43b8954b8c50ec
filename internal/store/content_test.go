// SPDX-License-Identifier: Apache-2.0

package store

import "testing"

func TestIsUnused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Content)
		want   bool
	}{
		"as at its first start": {func(*Content) {}, true},
		"after many starts":     {func(c *Content) { c.Incarnation = 1 << 40 }, true},
		"promised":              {func(c *Content) { c.Promised = typical().Promised }, false},
		"accepted":              {func(c *Content) { c.Accepted = typical().Accepted }, false},
		"held":                  {func(c *Content) { c.Held = typical().Held }, false},
		"all of it":             {func(c *Content) { *c = typical() }, false},
	} {
		content := fresh()
		c.change(&content)
		if got := content.IsUnused(); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
