// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/member"
)

var update = flag.Bool("update", false, "write testdata/athena.state; takes a new format version")

// The bytes on disk, as an operator sees them.
func TestGoldenState(t *testing.T) {
	path := filepath.Join("testdata", stateName)
	got := mustFormat(t, typical())
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the content changed (-file +now):\n%s", diff)
	}
	d, err := parse(want)
	if err != nil || !reflect.DeepEqual(d, typical()) {
		t.Errorf("parse(%s) = %v (-want +got):\n%s", path, err, cmp.Diff(typical(), d))
	}
}

func TestFormatAndParse(t *testing.T) {
	for name, want := range map[string]Content{
		"typical": typical(), "fresh": fresh(), "largest": largest(),
	} {
		content := mustFormat(t, want)
		got, err := parse(content)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(content) > maxStateBytes/6 {
			t.Errorf("%s has %d bytes, the limit %d is too near", name, len(content), maxStateBytes)
		}
	}
}

func checkUnreadable(t *testing.T, name string, content []byte) {
	t.Helper()
	d, err := parse(content)
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		t.Errorf("%s: parse = %+v, %v, want ErrCorrupt or ErrVersion", name, d, err)
	}
	if !reflect.DeepEqual(d, Content{}) {
		t.Errorf("%s: a value came with the error: %+v", name, d)
	}
}

func TestEveryFlippedByteIsDetected(t *testing.T) {
	content := mustFormat(t, typical())
	for at := range content {
		for _, flip := range []byte{0x01, 0x20, 0x80, 0xff} {
			bad := bytes.Clone(content)
			bad[at] ^= flip
			checkUnreadable(t, fmt.Sprintf("byte %d xor %#02x", at, flip), bad)
		}
	}
}

func TestEveryTornFileIsDetected(t *testing.T) {
	content := mustFormat(t, typical())
	for n := range content {
		checkUnreadable(t, fmt.Sprintf("cut to %d bytes", n), content[:n])
		// A file whose length was written and whose last blocks were not.
		checkUnreadable(t, fmt.Sprintf("zero from byte %d", n),
			append(bytes.Clone(content[:n]), make([]byte, len(content)-n)...))
	}
	checkUnreadable(t, "one byte more", append(bytes.Clone(content), '\n'))
	checkUnreadable(t, "twice", append(bytes.Clone(content), content...))
}

// seal gives a payload the header of a sound file.
func seal(payload string) []byte {
	return fmt.Appendf(nil, "%s %s sha256:%s\n%s", magic, version, digest([]byte(payload)), payload)
}

func TestParseRefuses(t *testing.T) {
	_, sound, _ := strings.Cut(string(mustFormat(t, typical())), "\n")
	swap := func(from, to string) []byte {
		if !strings.Contains(sound, from) {
			t.Fatalf("no %q in %s", from, sound)
		}
		return seal(strings.ReplaceAll(sound, from, to))
	}
	header := func(words ...any) []byte {
		return fmt.Appendf(nil, "%s %s sha256:%s\n%s", append(words, digest([]byte(sound)), sound)...)
	}
	for _, c := range []struct {
		name    string
		content []byte
		want    error
	}{
		{"sound", seal(sound), nil},
		{"other magic", header("athena-store", "2"), ErrCorrupt},
		{"version of before the first release", header(magic, "1"), ErrVersion},
		{"later version", header(magic, "3"), ErrVersion},
		{"no version", header(magic, ""), ErrVersion},
		{"empty payload", seal(""), ErrCorrupt},
		{"no JSON", seal("hello"), ErrCorrupt},
		{"two values", seal(sound + sound), ErrCorrupt},
		{"null", seal("null"), ErrCorrupt},
		{"unknown field", seal(strings.Replace(sound, "{", `{"Later": 1,`, 1)), ErrCorrupt},
		{"no origin", swap(`"Origin"`, `"Elsewhere"`), ErrCorrupt},
		{"no cluster", swap(`"orders"`, `""`), ErrCorrupt},
		{"size 0", swap(`"Size": 3`, `"Size": 0`), ErrCorrupt},
		{"negative size", swap(`"Size": 3`, `"Size": -3`), ErrCorrupt},
		{"zero store id", swap(storeID(1).String(), strings.Repeat("0", 32)), ErrCorrupt},
		{"long store id", swap(storeID(1).String(), strings.Repeat("ab", 40)), ErrCorrupt},
		{"short store id", swap(storeID(1).String(), "ab"), ErrCorrupt},
		{"port 0", swap("node-002.example:7000", "node-002.example:0"), ErrCorrupt},
		{"roster out of order", swap("node-002.example:7000", "z.example:7000"), ErrCorrupt},
		{"one address twice", swap("node-002.example:7000", "node-003.example:7000"), ErrCorrupt},
		{"unknown status", swap(`"active"`, `"asleep"`), ErrCorrupt},
		{"removed in a roster", swap(`"active"`, `"removed"`), ErrCorrupt},
		{"no status", swap(`"active"`, `"none"`), ErrCorrupt},
		{"no address", swap(`"node-001.example:7000"`, `""`), ErrCorrupt},
		{"number above 64 bits", swap("18446744073709551615", "18446744073709551616"), ErrCorrupt},
		{"negative number", swap(`"Revision": 42`, `"Revision": -1`), ErrCorrupt},
		{"long name", swap(`"n3"`, `"`+strings.Repeat("n", 129)+`"`), ErrCorrupt},
		{"too large", seal(sound + strings.Repeat(" ", maxStateBytes)), ErrCorrupt},
	} {
		if _, err := parse(c.content); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

// Save must never write what Load then refuses.
func TestFormatRefuses(t *testing.T) {
	change := func(f func(*Content)) Content {
		c := typical()
		f(&c)
		return c
	}
	for _, c := range []struct {
		content Content
		want    string
	}{
		{Content{}, "StoreID: is zero"},
		{Content{}, "Origin.Cluster: no name"},
		{change(func(c *Content) { c.Origin.Cluster = "a\nb" }), `Origin.Cluster: no name`},
		{change(func(c *Content) { c.Origin.Cluster = strings.Repeat("c", 256) }), "Origin.Cluster"},
		{change(func(c *Content) { c.Origin.Size = 0 }), "Origin.Size: 0 is not within 1 to 255"},
		{change(func(c *Content) { c.Origin.Size = 256 }), "Origin.Size: 256"},
		{change(func(c *Content) { c.Origin.Address = member.Address{} }), "Origin.Address"},
		{change(func(c *Content) { c.LeaseTimeout = -1 }), "LeaseTimeout: -1ns is negative"},
		{change(func(c *Content) { c.Origin.Address.Host = "a b" }), "Origin.Address"},
		{change(func(c *Content) { c.Promised.Ballot.Proposer.Port = 0 }), "Promised: "},
		{change(func(c *Content) { c.Accepted.ID.Ballot.Proposer.Host = "a b" }), "Accepted: "},
		{change(func(c *Content) { c.Held.Leader.Host = "\xff" }), "Held: "},
		{change(func(c *Content) { c.Held.Leader.Host = "[a]" }), "Held: "},
		{change(func(c *Content) { c.Held.Roster[0].Name = "\xff" }), "not printable"},
		{change(func(c *Content) { c.Held.Roster[0].Name = "a\nb" }), "not printable"},
		{change(func(c *Content) { c.Held.Roster[0].Status = member.Removed }), "removed"},
		{change(func(c *Content) { c.Held.Roster[0].Address = member.Address{} }),
			"without an address"},
		{change(func(c *Content) { c.Accepted.State.Roster[1].Address.Host = "zz" }),
			"Accepted.State: a roster that is not sorted"},
		{change(func(c *Content) { c.Held.Roster = make(member.Roster, member.MaxMembers+1) }),
			"a roster of 256 members"},
	} {
		if _, err := format(c.content); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("format(%+v) = %v, want an error with %q", c.content, err, c.want)
		}
	}
}

// FuzzLoad reads any file, and any content behind a checksum that fits: it is
// refused with a known error and no value, or it is what a node could go on with,
// written and read again as it is. Either costs little.
func FuzzLoad(f *testing.F) {
	for _, d := range []Content{typical(), fresh()} {
		content := mustFormat(f, d)
		_, payload, _ := strings.Cut(string(content), "\n")
		f.Add(content, false)
		f.Add([]byte(payload), true)
	}
	f.Add([]byte{}, false)
	f.Add([]byte("null"), true)
	f.Add(bytes.Repeat([]byte("["), 10_001), true)
	f.Fuzz(func(t *testing.T, content []byte, sealed bool) {
		if sealed { // beyond the checksum, which no fuzzer guesses
			content = seal(string(content))
		}
		d, err := parse(content)
		if err != nil {
			checkUnreadable(t, "fuzzed", content)
			if most := 4*len(content) + 1024; len(err.Error()) > most {
				t.Fatalf("an error of %d bytes for %d: %.500v", len(err.Error()), len(content), err)
			}
			return
		}
		for _, s := range []member.State{d.Held, d.Accepted.State} {
			if len(s.Roster) > member.MaxMembers || !s.Roster.IsSorted() {
				t.Fatalf("%q gives the roster %+v", content, s.Roster)
			}
		}
		written := mustFormat(t, d)
		again, err := parse(written)
		if err != nil || !reflect.DeepEqual(sameNil(d), sameNil(again)) {
			t.Fatalf("%q gives %+v, written and read again %+v, %v", content, d, again, err)
		}
		if twice := mustFormat(t, again); !bytes.Equal(twice, written) {
			t.Fatalf("written twice:\n%s\n%s", written, twice)
		}
	})
}

// sameNil makes an empty roster nil.
func sameNil(d Content) Content {
	if len(d.Held.Roster) == 0 {
		d.Held.Roster = nil
	}
	if len(d.Accepted.State.Roster) == 0 {
		d.Accepted.State.Roster = nil
	}
	return d
}
