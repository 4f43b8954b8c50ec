// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strings"
	"testing"
)

func TestStoreIDText(t *testing.T) {
	want := StoreID{0x01, 0xab, 15: 0xff}
	text, err := want.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var got StoreID
	if err := got.UnmarshalText(text); err != nil || got != want {
		t.Errorf("UnmarshalText(%q) = %v, %v, want %v", text, got, err, want)
	}
	for _, bad := range []string{
		"", "ab", strings.Repeat("a", 31), strings.Repeat("a", 33), strings.Repeat("ab", 17),
		strings.Repeat("ab", 4000), strings.Repeat("x", 32),
	} {
		if err := new(StoreID).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("UnmarshalText(%.40q) of %d bytes: no error", bad, len(bad))
		}
	}
}
