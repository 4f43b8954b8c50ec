// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"errors"
	"testing"

	"github.com/athena-go/athena/member"
)

// FuzzParse checks that each type with a text form either rejects a text, or formats the
// parsed value so that it parses to the same value again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "-", "10.0.0.1:7000", "db-1.local:65535", "[::1]:7000", "[fe80::1%eth0]:1", "a:0", "a:65536",
		"a:+1", "a:01", ":1", "é:1", "a b:1", "active", "removed", "00112233445566778899aabbccddeeff",
		"00112233445566778899AABBCCDDEEFF",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := member.ParseAddress(text)
		switch {
		case err != nil && (!errors.Is(err, member.ErrAddress) || !a.IsZero()):
			t.Fatalf("ParseAddress(%q) = %v, %v", text, a, err)
		case err == nil:
			again, err := member.ParseAddress(a.String())
			if err != nil || again != a || !a.IsValid() || a.Compare(again) != 0 {
				t.Fatalf("%q is %v, which is read as %v, %v", text, a, again, err)
			}
		}
		var b member.Address
		textErr := b.UnmarshalText([]byte(text))
		if (textErr == nil) != (err == nil || text == "") || b != a {
			t.Fatalf("%q: as text %v, %v; parsed %v, %v", text, b, textErr, a, err)
		}
		var id member.StoreID
		if id.UnmarshalText([]byte(text)) == nil {
			var again member.StoreID
			if err := again.UnmarshalText([]byte(id.String())); err != nil || again != id {
				t.Fatalf("store id %q is %v, which is read as %v, %v", text, id, again, err)
			}
		}
		var s member.Status
		if s.UnmarshalText([]byte(text)) == nil && s.String() != text {
			t.Fatalf("status %q is written %q", text, s)
		}
	})
}
