// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/athena-go/athena/member"
)

func TestParseAddress(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want member.Address
	}{
		{"10.0.0.1:7000", member.Address{Host: "10.0.0.1", Port: 7000}},
		{"db-1.local:1", member.Address{Host: "db-1.local", Port: 1}},
		{"[::1]:65535", member.Address{Host: "::1", Port: 65535}},
		{"[fe80::1%eth0]:7000", member.Address{Host: "fe80::1%eth0", Port: 7000}},
		{strings.Repeat("h", member.MaxHostBytes) + ":7000",
			member.Address{Host: strings.Repeat("h", member.MaxHostBytes), Port: 7000}},
	} {
		got, err := member.ParseAddress(tc.in)
		if err != nil || got != tc.want {
			t.Errorf("ParseAddress(%q): got %+v, %v, want %+v", tc.in, got, err, tc.want)
		}
		if got.String() != tc.in {
			t.Errorf("ParseAddress(%q).String(): got %q, want what was read", tc.in, got)
		}
		if !got.IsValid() || (member.Address{Host: got.Host}).IsValid() {
			t.Errorf("%v.IsValid(): want it of host and port, not of a host alone", got)
		}
	}
}

func TestParseAddressNamesWhatIsWrong(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", "want host:port"},
		{"host", "want host:port"},
		{"a:b:7000", "want host:port"},
		{"::1:7000", "want host:port"},
		{":7000", "before the port"},
		{"a b:7000", "before the port"},
		{"a/b:7000", "before the port"},
		{"a\u00a0b:7000", "before the port"}, // no-break space
		{"a\x1bb:7000", "before the port"},
		{"a\u202eb:7000", "before the port"}, // right-to-left override
		{"a\u200bb:7000", "before the port"}, // zero-width space
		{strings.Repeat("h", member.MaxHostBytes+1) + ":7000", "before the port"},
		{"host:", "1 to 65535"},
		{"host:0", "1 to 65535"},
		{"host:65536", "1 to 65535"},
		{"host:-1", "1 to 65535"},
		{"host:http", "1 to 65535"},
	} {
		got, err := member.ParseAddress(tc.in)
		if !errors.Is(err, member.ErrAddress) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ParseAddress(%q): got %v, %v, want ErrAddress with %q", tc.in, got, err, tc.want)
		}
	}
}

// TestAddressHasOneForm checks that an IP address in another form names the same member, and that
// no such form is valid in an Address that a peer sends.
func TestAddressHasOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"[0:0:0:0:0:0:0:1]:7000": "[::1]:7000",
		"[FD00::0A]:7000":        "[fd00::a]:7000",
		"[::ffff:10.0.0.1]:7000": "10.0.0.1:7000",
		"010.0.0.1:7000":         "010.0.0.1:7000", // a name
	} {
		got, err := member.ParseAddress(text)
		if err != nil || got.String() != want {
			t.Errorf("ParseAddress(%q): got %v, %v, want %s", text, got, err, want)
		}
		host, _, err := net.SplitHostPort(text)
		if other := (member.Address{Host: host, Port: 7000}); err != nil ||
			other.IsValid() != (text == want) {
			t.Errorf("%+v.IsValid(): got %v, want only the form of ParseAddress", other, other.IsValid())
		}
	}
}

// Addresses are compared first by host, as strings, and then by port, as numbers (protocol.md
// section 1).
func TestAddressOrder(t *testing.T) {
	sorted := []member.Address{
		{},
		{Host: "10.0.0.10", Port: 9},
		{Host: "10.0.0.9", Port: 9},
		{Host: "10.0.0.9", Port: 10},
		{Host: "10.0.0.9", Port: 7000},
		{Host: "a", Port: 1},
	}
	for i, a := range sorted {
		for j, b := range sorted {
			if got, want := sign(a.Compare(b)), sign(i-j); got != want {
				t.Errorf("%v.Compare(%v): got %d, want %d", a, b, got, want)
			}
		}
	}
}

func sign(n int) int { return min(max(n, -1), 1) }

func TestAddressText(t *testing.T) {
	for _, a := range []member.Address{{}, {Host: "n1", Port: 7000}, {Host: "::1", Port: 1}} {
		text, err := a.MarshalText()
		got := member.Address{Host: "before", Port: 1}
		if err == nil {
			err = got.UnmarshalText(text)
		}
		if err != nil || got != a {
			t.Errorf("%v as text %q: got %v, %v, want it back", a, text, got, err)
		}
	}
	if got := (member.Address{}).String(); got != "-" {
		t.Errorf("String of the zero Address: got %q, want %q", got, "-")
	}
	kept := member.Address{Host: "n1", Port: 7000}
	if err := kept.UnmarshalText([]byte("n2")); err == nil || kept.Host != "n1" {
		t.Errorf("UnmarshalText of n2: got %v, %v, want an error and no change", kept, err)
	}
}

func TestStoreIDText(t *testing.T) {
	id := member.StoreID{0x01, 0xab, 15: 0xff}
	text, err := id.MarshalText()
	if want := "01ab00000000000000000000000000ff"; err != nil || string(text) != want {
		t.Errorf("MarshalText: got %q, %v, want %q", text, err, want)
	}
	var got member.StoreID
	if err := got.UnmarshalText(text); err != nil || got != id {
		t.Errorf("UnmarshalText(%q): got %v, %v, want %v", text, got, err, id)
	}
	zeros := func(n int) string { return strings.Repeat("0", n) }
	for _, bad := range []string{"", "01", zeros(31), zeros(33), zeros(40), strings.Repeat("g", 32)} {
		if err := got.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("UnmarshalText(%q): got no error", bad)
		}
	}
	if id.IsZero() || !(member.StoreID{}).IsZero() {
		t.Error("IsZero: got it wrong way round")
	}
}

func TestIdentityNamesAddressStoreAndRun(t *testing.T) {
	id := member.Identity{
		Address:     member.Address{Host: "n1", Port: 7000},
		StoreID:     member.StoreID{1, 2, 3, 4},
		Incarnation: 5,
	}
	if got, want := id.String(), "n1:7000/010203#5"; got != want {
		t.Errorf("String: got %q, want %q", got, want)
	}
	later := id
	later.Incarnation++
	if id == later || id.Voter() != later.Voter() {
		t.Errorf("two runs of one store: got voters %v and %v, want one voter", id.Voter(), later.Voter())
	}
}

// A chosen leader beats a provisional leader; otherwise the higher version wins, and then the
// greater address (protocol.md section 7).
func TestClaimOrder(t *testing.T) {
	a1, a2 := member.Address{Host: "a", Port: 1}, member.Address{Host: "a", Port: 2}
	sorted := []member.Claim{
		{},
		{Version: 1, Leader: a1},
		{Version: 1, Leader: a2},
		{Version: 9, Leader: a1},
		{Chosen: true, Version: 1, Leader: a1},
		{Chosen: true, Version: 1, Leader: a2},
		{Chosen: true, Version: 2, Leader: a1},
	}
	for i, a := range sorted {
		for j, b := range sorted {
			if got, want := a.BetterThan(b), i > j; got != want {
				t.Errorf("%v.BetterThan(%v): got %v, want %v", a, b, got, want)
			}
		}
	}
	var text []string
	for _, c := range sorted[:2] {
		text = append(text, c.String())
	}
	text = append(text, sorted[6].String())
	if want := []string{"no leader", "a:1 v1 provisional", "a:1 v2"}; !slices.Equal(text, want) {
		t.Errorf("String: got %q, want %q", text, want)
	}
}
