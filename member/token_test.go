// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/athena-go/athena/member"
)

func TestTokenOrder(t *testing.T) {
	sorted := []member.Token{{}, {Revision: 1}, {Version: 1}, {Version: 1, Revision: 9}, {Version: 2}}
	if !slices.IsSortedFunc(sorted, member.Token.Compare) {
		t.Errorf("not in order: %v", sorted)
	}
	for i, a := range sorted {
		for j, b := range sorted {
			if got, want := a.Less(b), i < j; got != want {
				t.Errorf("%v.Less(%v): got %t, want %t", a, b, got, want)
			}
		}
		if got, want := a.IsZero(), i == 0; got != want {
			t.Errorf("%v.IsZero(): got %t, want %t", a, got, want)
		}
	}
}

// TestTokenText checks that the text of a token is its number and can be parsed, also in JSON, that
// its version and revision are parsed too, and that other texts are rejected.
func TestTokenText(t *testing.T) {
	token := member.Token{Version: 4, Revision: 17}
	b, err := json.Marshal(map[string]member.Token{"token": token})
	if got, want := string(b), `{"token":"4000000000017"}`; err != nil || got != want {
		t.Errorf("JSON: got %s, %v, want %s", got, err, want)
	}
	for text, want := range map[string]member.Token{
		"4000000000017": token, "4.17": token, "0": {}, "0.0": {}, "33": {Revision: 33},
		"0.33": {Revision: 33}, "0.1000000000000": {Revision: 1_000_000_000_000},
		"9223372.0": {Version: member.MaxVersion + 1},
	} {
		var got member.Token
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := member.Token{
			Version: rapid.Uint64().Draw(t, "version"), Revision: rapid.Uint64().Draw(t, "revision"),
		}
		text, _ := want.MarshalText()
		var got member.Token
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
		old := member.Number(want).String() // VERSION.REVISION
		if err := got.UnmarshalText([]byte(old)); err != nil || got != want {
			t.Errorf("%s: got %v, %v", old, got, err)
		}
	})
	for _, text := range []string{
		"", ".", "4.", ".17", "4.17.1", "04.17", "+4.17", "-4.17", "4.17 ", "18446744073709551616.0",
		"x.y", "04", "+4", "-4", "-0", "4 ", "x", "9223372036854775807", "9223372036854775808",
	} {
		got := member.Token{Version: 1}
		if err := got.UnmarshalText([]byte(text)); err == nil || got != (member.Token{Version: 1}) {
			t.Errorf("%q: got %v, %v, want an error and no change", text, got, err)
		}
	}
	for _, n := range []int64{0, -1, math.MinInt64} {
		if got := member.TokenOf(n); !got.IsZero() {
			t.Errorf("TokenOf(%d): got %v, want the zero Token", n, got)
		}
	}
}

// TestTokenInt64 checks that Int64 keeps the order of tokens or returns an error. MaxVersion is the
// greatest version that fits.
func TestTokenInt64(t *testing.T) {
	const most = 9_223_371
	if member.MaxVersion != most {
		t.Errorf("MaxVersion: got %d, want %d", member.MaxVersion, most)
	}
	sorted := []member.Token{
		{}, {Revision: 1}, {Revision: 999_999_999_999}, {Version: 1}, {Version: 4, Revision: 17},
		{Version: 5}, {Version: most, Revision: 999_999_999_999},
	}
	last := int64(-1)
	for _, n := range sorted {
		got, err := n.Int64()
		if err != nil || got <= last {
			t.Errorf("%v: %d, %v after %d", n, got, err, last)
		}
		last = got
		if back := member.TokenOf(got); back != n {
			t.Errorf("TokenOf(%d): got %v, want %v", got, back, n)
		}
	}
	if got, err := (member.Token{Version: 4, Revision: 17}).Int64(); got != 4000000000017 {
		t.Errorf("version 4, revision 17: %d, %v", got, err)
	}
	for _, n := range []member.Token{
		{Revision: 1_000_000_000_000}, {Version: most + 1}, {Version: math.MaxUint64},
		{Revision: math.MaxUint64},
	} {
		if got, err := n.Int64(); err == nil {
			t.Errorf("%v: %d, want an error", n, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.Custom(func(t *rapid.T) member.Token {
			return member.Token{
				Version:  rapid.Uint64Max(most+1).Draw(t, "version"),
				Revision: rapid.Uint64Max(1_000_000_000_000).Draw(t, "revision"),
			}
		})
		a, b := token.Draw(t, "a"), token.Draw(t, "b")
		x, xErr := a.Int64()
		y, yErr := b.Int64()
		if got, want := cmp.Compare(x, y), a.Compare(b); xErr == nil && yErr == nil && got != want {
			t.Errorf("%v and %v: %d and %d", a, b, x, y)
		}
	})
}
