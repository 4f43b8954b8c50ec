// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
)

const notOfTheKey = "StoreID: is not the id of the key"

// foreignIDs returns contents whose store id is not that of their key.
func foreignIDs() map[string]Content {
	otherKey, otherID, noKey, otherBit := typical(), typical(), typical(), typical()
	otherKey.Key = testKey(2)
	otherID.StoreID = testKey(2).StoreID()
	noKey.Key = storekey.Key{}
	otherBit.StoreID[15] ^= 1
	return map[string]Content{
		"another key": otherKey, "another id": otherID, "no key": noKey, "another bit": otherBit,
	}
}

// TestSaveRefusesAForeignID checks the first save, which writes a file, and a later one, which
// writes an entry. The store keeps the content that it had.
func TestSaveRefusesAForeignID(t *testing.T) {
	for name, bad := range foreignIDs() {
		dir := saved(t, fresh())
		s := open(t, dir)
		load(t, s)
		for _, want := range []Content{fresh(), typical()} {
			err := s.Save(bad)
			if err == nil || !strings.Contains(err.Error(), "nothing was saved: "+notOfTheKey) {
				t.Errorf("%s: Save = %v, want an error with %q", name, err, notOfTheKey)
			}
			if got, ok := load(t, s); !ok || got.StoreID != want.StoreID || got.Key != want.Key {
				t.Errorf("%s: the store holds %v, store id %s, want %s", name, ok, got.StoreID, want.StoreID)
			}
			save(t, s, typical()) // the next Save writes an entry
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		checkHolds(t, dir, typical())
	}
}

// TestLoadRefusesAForeignID checks a file that is sound except for its last content, which is the
// first entry or a later one.
func TestLoadRefusesAForeignID(t *testing.T) {
	sound := payload(t, Content{}, typical())
	for name, bad := range foreignIDs() {
		altered := strings.NewReplacer(
			fmt.Sprintf(`"Key":"%s","StoreID":"%s"`, hexOf(testKey(1)), testKey(1).StoreID()),
			fmt.Sprintf(`"Key":"%s","StoreID":"%s"`, hexOf(bad.Key), bad.StoreID),
		).Replace(sound)
		if altered == sound {
			t.Fatalf("%s: no key and store id in %s", name, sound)
		}
		first, _ := stateFile(altered)
		later, _ := stateFile(sound, altered)
		for entry, content := range map[string][]byte{"first": first, "later": later} {
			checkUnreadable(t, name, content)
			dir := t.TempDir()
			s := open(t, dir)
			if err := os.WriteFile(filepath.Join(dir, stateName), content, 0o600); err != nil {
				t.Fatal(err)
			}
			c, known, err := s.Load()
			if known || !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), notOfTheKey) {
				t.Errorf("%s in the %s entry: Load = %v, %v, %v, want ErrCorrupt with %q",
					name, entry, c, known, err, notOfTheKey)
			}
			if err := s.Save(typical()); err == nil {
				t.Errorf("%s in the %s entry: Save after a failed Load: no error", name, entry)
			}
		}
	}
}

// distinctKey returns a key whose bytes differ from each other.
func distinctKey() (k storekey.Key) {
	copy(k[:], []byte{0xa1, 0xb2, 0xc3})
	for i := 3; i < len(k); i++ {
		k[i] = byte(0x35 + 5*i)
	}
	return k
}

// checkHidden checks that a text contains distinctKey in none of the forms of package fmt.
func checkHidden(t *testing.T, name, text string) {
	t.Helper()
	digits := hexOf(distinctKey())
	for _, part := range []string{
		digits[:16], digits[len(digits)-16:], strings.ToUpper(digits[:16]), "161 178 195",
		"0xa1, 0xb2, 0xc3", "\xa1\xb2\xc3", `\xa1\xb2\xc3`,
	} {
		if strings.Contains(text, part) {
			t.Errorf("%s contains %q of the key: %.500q", name, part, text)
		}
	}
}

func TestContentHidesTheKey(t *testing.T) {
	c := typical()
	c.Key = distinctKey()
	c.StoreID = c.Key.StoreID()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for name, text := range map[string]string{
			"Content": fmt.Sprintf(verb, c), "*Content": fmt.Sprintf(verb, &c),
			"entry": fmt.Sprintf(verb, entry{Content: c}),
		} {
			checkHidden(t, name+" as "+verb, text)
		}
	}
	if got := fmt.Sprintf("%+v", c); !strings.Contains(got, "Key:(secret)") {
		t.Errorf("got %s, want it to contain Key:(secret)", got)
	}
}

// TestErrorsHideTheKey checks the errors of Save, and those of Load for damaged files and for
// payloads with valid checksums.
func TestErrorsHideTheKey(t *testing.T) {
	c := typical()
	c.Key = distinctKey()
	c.StoreID = c.Key.StoreID()
	check := func(name string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", name)
			return
		}
		checkHidden(t, name, err.Error())
	}

	for name, change := range map[string]func(c *Content){
		"another id":      func(c *Content) { c.StoreID = storeID(1) },
		"no id":           func(c *Content) { c.StoreID = member.StoreID{} },
		"another cluster": func(c *Content) { c.Origin.Cluster = "a\nb" },
		"bad roster":      func(c *Content) { c.Held.Roster[0].Status = member.None },
	} {
		bad := typical()
		bad.Key, bad.StoreID = c.Key, c.StoreID
		change(&bad)
		s := open(t, t.TempDir())
		load(t, s)
		check("Save with "+name, s.Save(bad))
	}

	digits, sound := hexOf(c.Key), payload(t, Content{}, c)
	for name, value := range map[string]string{
		"a longer key":           `"` + digits + `00"`,
		"a shorter key":          `"` + digits[2:] + `"`,
		"a wrong last digit":     `"` + digits[:63] + `x"`,
		"a wrong first digit":    `"x` + digits[1:] + `"`,
		"another last digit":     `"` + digits[:63] + `1"`,
		"two keys":               `"` + digits + `" "` + digits + `"`,
		"no quotes":              digits,
		"no end":                 `"` + digits,
		"an array":               `["` + digits + `"]`,
		"an object":              `{"` + digits + `":1}`,
		"a number":               `1` + strings.Repeat("0", 63),
		"an id":                  `"","StoreID":"` + digits + `"`,
		"a size":                 `"","Origin":{"Size":"` + digits + `"}`,
		"an address":             `"","Origin":{"Address":"` + digits + `"}`,
		"a key and a wrong size": `"` + digits + `","Origin":{"Size":-1}`,
	} {
		bad := strings.Replace(sound, `"`+digits+`"`, value, 1)
		if bad == sound {
			t.Fatalf("%s: no key in %s", name, sound)
		}
		content, _ := stateFile(bad)
		_, err := parseContent(content)
		check("Load of "+name, err)
	}

	content := mustFormat(t, c)
	at := strings.Index(string(content), digits)
	for n := range content[:at+2*len(digits)] {
		content[n] ^= 1
		if _, err := parseContent(content); err != nil {
			checkHidden(t, fmt.Sprintf("Load of a file with byte %d flipped", n), err.Error())
		}
		content[n] ^= 1
	}
	for n := at; n <= at+len(digits); n++ {
		_, err := parseContent(content[:n])
		check(fmt.Sprintf("Load of %d bytes", n), err)
	}
}
