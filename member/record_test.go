// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"strings"
	"testing"

	"github.com/athena-go/athena/member"
)

func TestIsKey(t *testing.T) {
	for key, want := range map[string]bool{
		"k": true, "jobs/leader": true, "größe 1": true, strings.Repeat("k", 256): true,
		"": false, strings.Repeat("k", 257): false, "a\nb": false, "\xff": false, "\u202e": false,
	} {
		if got := member.IsKey(key); got != want {
			t.Errorf("IsKey(%q): got %t, want %t", key, got, want)
		}
	}
}
