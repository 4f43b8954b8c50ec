// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
)

func checkParse(t *testing.T, name string, content []byte, want Content) {
	t.Helper()
	got, err := parseContent(content)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestFormatAndParse(t *testing.T) {
	for name, want := range map[string]Content{
		"typical": typical(), "fresh": fresh(), "largest": largest(),
	} {
		content := mustFormat(t, want)
		checkParse(t, name, content, want)
		if len(content) > maxStateBytes/2 {
			t.Errorf("%s has %d bytes, the limit %d is too near", name, len(content), maxStateBytes)
		}
	}
}

// An entry can follow an entry of any other content.
func TestEntriesFollowEachOther(t *testing.T) {
	all := append(three(), fresh())
	for i, before := range all {
		for j, c := range all {
			content, _ := stateFile(payload(t, Content{}, before), payload(t, before, c))
			name := fmt.Sprintf("content %d behind %d", j, i)
			checkParse(t, name, content, c)
		}
	}
}

func TestChangesMakeOneTableOfAnother(t *testing.T) {
	draw := func(t *rapid.T, name string) member.Records {
		var r member.Records
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 40), 0, 12).Draw(t, name) {
			r = r.Put(member.Record{Key: fmt.Sprint(n % 20), Session: uint64(n)})
		}
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		from, to := draw(t, "from"), draw(t, "to")
		before := newTable(slices.Collect(from.All())...)
		c := changesSince(from, to)
		if got := c.applyTo(from); !got.Equal(to) {
			t.Fatalf("from %+v to %+v: %+v makes %+v", from, to, c, got)
		}
		if !from.Equal(before) {
			t.Fatalf("%+v became %+v", before, from)
		}
		for _, e := range c.setRecords() {
			if old, ok := from.Find(e.Key); ok && old.Session == e.Session {
				t.Fatalf("from %+v to %+v: %s is set and did not change", from, to, e.Key)
			}
		}
	})
}

func checkUnreadable(t *testing.T, name string, content []byte) {
	t.Helper()
	d, err := parseContent(content)
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		t.Errorf("%s: parse = %+v, %v, want ErrCorrupt or ErrVersion", name, d, err)
	}
	if !reflect.DeepEqual(d, Content{}) {
		t.Errorf("%s: a value came with the error: %+v", name, d)
	}
}

// A changed byte in the room or in the padding of an entry is either harmless or detected.
func TestEveryFlippedByteIsDetected(t *testing.T) {
	content, ends := threeEntries(t)
	end, want := ends[len(ends)-1], three()[2]
	for at := range end + 2*sectorBytes {
		flips := []byte{0x01, 0x80}
		if inSector := at % sectorBytes; inSector < 2 || inSector > sectorBytes-4 {
			flips = append(flips, ' '^'.', ' '^'\n', ' ', '\n', 0xff)
		} else if testing.Short() && at%8 > 0 {
			continue
		}
		for _, flip := range flips {
			name := fmt.Sprintf("byte %d xor %#02x", at, flip)
			blank := at >= end || content[at] == ' ' || content[at] == '\n'
			content[at] ^= flip
			if got, err := parseContent(content); err != nil || !blank {
				checkUnreadable(t, name, content)
			} else if !cmp.Equal(got, want) {
				t.Errorf("%s, in spaces: got %+v", name, got)
			}
			content[at] ^= flip
		}
	}
}

func TestEveryCutFileIsDetected(t *testing.T) {
	content, ends := threeEntries(t)
	for n := range content {
		if n%sectorBytes < 2 {
			checkUnreadable(t, fmt.Sprintf("cut to %d bytes", n), content[:n])
		}
	}
	for at := range ends[2] {
		if at%100 > 0 && at%sectorBytes > 2 {
			continue
		}
		// The length of the file was written, but not its last blocks.
		checkUnreadable(t, fmt.Sprintf("zero from byte %d", at),
			append(bytes.Clone(content[:at]), make([]byte, len(content)-at)...))
	}
	checkUnreadable(t, "one byte more", append(bytes.Clone(content), '\n'))
	checkUnreadable(t, "a sector more", append(bytes.Clone(content), emptySector()...))
	checkUnreadable(t, "twice", append(bytes.Clone(content), content...))
}

// A crash may leave any subset of the sectors of an unfinished entry; the previous entry then
// remains valid. If an earlier entry lacks a sector, the file cannot be read.
func TestTornEntries(t *testing.T) {
	content, ends := threeEntries(t)
	tear := func(from, to, sectors int) []byte {
		torn := bytes.Clone(content)
		for n := 0; from+n*sectorBytes < to; n++ {
			if sectors&(1<<n) == 0 {
				copy(torn[from+n*sectorBytes:], emptySector())
			}
		}
		return torn
	}
	last := 1 << ((ends[2] - ends[1]) / sectorBytes)
	if last < 8 {
		t.Fatalf("an entry of %d bytes shows little", ends[2]-ends[1])
	}
	for sectors := range last {
		want := three()[1]
		if sectors == last-1 {
			want = three()[2]
		}
		name := fmt.Sprintf("sectors %b of the last", sectors)
		checkParse(t, name, tear(ends[1], ends[2], sectors), want)
	}
	for cut := range ends[2] - ends[1] { // a write that ended after any byte
		if testing.Short() && cut%8 > 0 {
			continue
		}
		torn, want := bytes.Clone(content), three()[1]
		for at := ends[1] + cut; at < ends[2]; at++ {
			torn[at] = emptySector()[at%sectorBytes]
		}
		if cut >= len(bytes.TrimRight(content[ends[1]:ends[2]], entryEnd)) {
			want = three()[2] // only padding is missing
		}
		checkParse(t, fmt.Sprintf("%d bytes of the last", cut), torn, want)
	}
	for sectors := range min(1<<10, 1<<((ends[1]-ends[0])/sectorBytes)-1) {
		checkUnreadable(t, fmt.Sprintf("sectors %b of one before the last", sectors),
			tear(ends[0], ends[1], sectors))
	}
	for n := 24; n < ends[0]; n += sectorBytes {
		whole := bytes.Clone(content)
		at := max(24, n/sectorBytes*sectorBytes)
		copy(whole[at:], emptySector()[at%sectorBytes:])
		checkUnreadable(t, fmt.Sprintf("the first without its sector at %d", at), whole)
	}
}

// An entry that ends with the file may also be written in part.
func TestTornEntryAtTheEnd(t *testing.T) {
	c := three()
	first, second := []byte(payload(t, Content{}, c[0])), []byte(payload(t, c[0], c[1]))
	_, root, end := beginContent(first, 0)
	content, root, end := beginContent(first, len(sealEntry(root, end, second)))
	entry := sealEntry(root, end, second)
	if end+len(entry) != len(content) {
		t.Fatalf("the entry ends at %d of %d bytes", end+len(entry), len(content))
	}
	for cut := range len(entry) {
		torn, want := bytes.Clone(content), c[0]
		if copy(torn[end:], entry[:cut]); cut >= len(bytes.TrimRight(entry, entryEnd)) {
			want = c[1] // only padding is missing
		}
		checkParse(t, fmt.Sprintf("%d bytes", cut), torn, want)
	}
}

// A block of another file, or from another position, is not valid in this file.
func TestEntriesBelongToTheirFileAndPlace(t *testing.T) {
	content, ends := threeEntries(t)
	c := three()
	c[0].Incarnation--
	other, otherEnds := stateFile(payload(t, Content{}, c[0]), payload(t, c[0], c[1]))
	if otherEnds[0] != ends[0] || otherEnds[1] != ends[1] {
		t.Fatalf("entries end at %v and %v: the test proves nothing", ends, otherEnds)
	}
	strange := bytes.Clone(content)
	copy(strange[ends[0]:], other[ends[0]:ends[1]])
	checkUnreadable(t, "an entry of another file", strange)
	strange = bytes.Clone(content)
	copy(strange[ends[2]:], content[ends[1]:ends[2]])
	checkUnreadable(t, "the last entry again", strange)
}

// otherVersion returns a file in this format with a different version in its header.
func otherVersion(t *testing.T, version string) []byte {
	t.Helper()
	content := mustFormat(t, typical())
	header := fmt.Sprintf("%s %s %08d\n", magic, version, len(content))
	entry := sealEntry(header, len(header), []byte(payload(t, Content{}, typical())))
	return append([]byte(header+string(entry)), content[len(header)+len(entry):]...)
}

// The error for a format of before the first release names the format and the remedy.
func TestUnreleasedFormatsAreRefusedByName(t *testing.T) {
	if want := []string{"1", "2", "3", "4"}; !slices.Equal(unreleased, want) {
		t.Errorf("unreleased formats: got %q, want %q", unreleased, want)
	}
	for _, number := range unreleased {
		_, err := parseContent(otherVersion(t, number))
		if !errors.Is(err, ErrVersion) {
			t.Errorf("format %s: got %v, want ErrVersion", number, err)
			continue
		}
		for _, part := range []string{
			fmt.Sprintf("version %q, from before the first release, without a key", number),
			"start the version of Athena that wrote it", "start each with an empty directory",
		} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("format %s: got %v, want an error with %q", number, err, part)
			}
		}
	}
}

// A flipped bit in the first line is reported as damage, never as a different version of Athena,
// because the advice in that error would be wrong.
func TestEveryFlippedBitOfTheHeaderIsDamage(t *testing.T) {
	content := mustFormat(t, typical())
	for at := range bytes.IndexByte(content, '\n') + 1 {
		for bit := range 8 {
			content[at] ^= 1 << bit
			if _, err := parseContent(content); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%.60q: got %v, want ErrCorrupt", content, err)
			}
			content[at] ^= 1 << bit
		}
	}
}

func TestParseRefuses(t *testing.T) {
	sound, id := payload(t, Content{}, typical()), testKey(1).StoreID().String()
	file := func(payloads ...string) []byte {
		content, _ := stateFile(payloads...)
		return content
	}
	swap := func(from, to string) []byte {
		if !strings.Contains(sound, from) {
			t.Fatalf("no %q in %s", from, sound)
		}
		return file(strings.ReplaceAll(sound, from, to))
	}
	header := func(word, number string) []byte {
		_, rest, _ := bytes.Cut(file(sound), []byte("\n"))
		return fmt.Appendf(nil, "%s %s %08d\n%s", word, number, len(file(sound)), rest)
	}
	for _, c := range []struct {
		name    string
		content []byte
		want    error
	}{
		{"sound", file(sound), nil},
		{"other magic", header("athena-store", "5"), ErrCorrupt},
		{"number of another version", header(magic, "1"), ErrCorrupt},
		{"number of the version before", header(magic, "4"), ErrCorrupt},
		{"number of a later version", header(magic, "6"), ErrCorrupt},
		{"no version", header(magic, ""), ErrCorrupt},
		{"version of before the first release", otherVersion(t, "1"), ErrVersion},
		{"version of before records", otherVersion(t, "2"), ErrVersion},
		{"version of before cluster ids", otherVersion(t, "3"), ErrVersion},
		{"version of before keys", otherVersion(t, "4"), ErrVersion},
		{"later version", otherVersion(t, "6"), ErrVersion},
		{"empty payload", file(""), ErrCorrupt},
		{"no JSON", file("hello"), ErrCorrupt},
		{"two values", file(sound + sound), ErrCorrupt},
		{"null", file("null"), ErrCorrupt},
		{"unknown field", file(strings.Replace(sound, "{", `{"Later": 1,`, 1)), ErrCorrupt},
		{"no origin", swap(`"Origin"`, `"Elsewhere"`), ErrCorrupt},
		{"no cluster", swap(`"orders"`, `""`), ErrCorrupt},
		{"size 0", swap(`"Size":3`, `"Size":0`), ErrCorrupt},
		{"negative size", swap(`"Size":3`, `"Size":-3`), ErrCorrupt},
		{"zero store id", swap(id, strings.Repeat("0", 32)), ErrCorrupt},
		{"long store id", swap(id, strings.Repeat("ab", 40)), ErrCorrupt},
		{"short store id", swap(id, "ab"), ErrCorrupt},
		{"no key", swap(`"Key":"`+hexOf(testKey(1))+`",`, ""), ErrCorrupt},
		{"long key", swap(hexOf(testKey(1)), hexOf(testKey(1))+"00"), ErrCorrupt},
		{"short key", swap(hexOf(testKey(1)), hexOf(testKey(1))[2:]), ErrCorrupt},
		{"a key that is not hexadecimal", swap(hexOf(testKey(1)), strings.Repeat("x", 64)), ErrCorrupt},
		{"port 0", swap("node-002.example:7000", "node-002.example:0"), ErrCorrupt},
		{"roster out of order", swap("node-002.example:7000", "z.example:7000"), ErrCorrupt},
		{"one address twice", swap("node-002.example:7000", "node-003.example:7000"), ErrCorrupt},
		{"unknown status", swap(`"active"`, `"asleep"`), ErrCorrupt},
		{"no cluster id", swap(state(1).Cluster.String(), strings.Repeat("0", 32)), ErrCorrupt},
		{"removed in a roster", swap(`"active"`, `"removed"`), ErrCorrupt},
		{"no status", swap(`"active"`, `"none"`), ErrCorrupt},
		{"no address", swap(`"node-001.example:7000"`, `""`), ErrCorrupt},
		{"number above 64 bits", swap("18446744073709551615", "18446744073709551616"), ErrCorrupt},
		{"negative number", swap(`"Revision":42`, `"Revision":-1`), ErrCorrupt},
		{"long name", swap(`"n3"`, `"`+strings.Repeat("n", 129)+`"`), ErrCorrupt},
		{"an empty key", swap(`"jobs/leader"`, `""`), ErrCorrupt},
		{"a key of two lines", swap(`"jobs/leader"`, `"a\nb"`), ErrCorrupt},
		{"a value that is no base64", swap(`"bjI="`, `"n2"`), ErrCorrupt},
		{"records in the state", swap(`"Held":{`, `"Held":{"Records":[{"Key":"k"}],`), ErrCorrupt},
		{"too large", file(sound + strings.Repeat(" ", maxStateBytes)), ErrCorrupt},
	} {
		if _, err := parseContent(c.content); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

// Faults in an entry after the first one are also detected.
func TestParseRefusesLaterEntries(t *testing.T) {
	all, other := typical(), typical()
	all.Held.Records = many(member.MaxRecords)
	other.Held.Records = newTable(manyRecords(member.MaxRecords + 1)[1:]...)
	for _, c := range []struct {
		name      string
		before, c Content
		from, to  string
		want      error
	}{
		{"as many records as may be", all, other, "", "", nil},
		{"a record more", all, other, `"Dropped":["`, `"Dropped":["no `, ErrCorrupt},
		{"a name of two lines", typical(), three()[1], `"n3"`, `"\n"`, ErrCorrupt},
		{"an unknown field", typical(), three()[1], "{", `{"Later": 1,`, ErrCorrupt},
		{"no JSON", typical(), three()[1], "{", "", ErrCorrupt},
	} {
		next := payload(t, c.before, c.c)
		if !strings.Contains(next, c.from) {
			t.Fatalf("%s: no %q in %s", c.name, c.from, next)
		}
		content, _ := stateFile(payload(t, Content{}, c.before), strings.Replace(next, c.from, c.to, 1))
		if _, err := parseContent(content); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

// Save must never write a file that Load would reject.
func TestFormatRefuses(t *testing.T) {
	change := func(f func(*Content)) Content {
		c := typical()
		f(&c)
		return c
	}
	changeRecord := func(i int, f func(*member.Record)) Content {
		list := threeRecords()
		f(&list[i])
		return change(func(c *Content) { c.Held.Records = newTable(list...) })
	}
	for _, c := range []struct {
		content Content
		want    string
	}{
		{Content{}, "StoreID: is zero"},
		{Content{}, "Origin.Cluster: invalid cluster name"},
		{change(func(c *Content) { c.Origin.Cluster = "a\nb" }), `Origin.Cluster: invalid cluster name`},
		{change(func(c *Content) { c.Origin.Cluster = strings.Repeat("c", 256) }), "Origin.Cluster"},
		{change(func(c *Content) { c.Origin.Size = 0 }), "Origin.Size: 0: want 1 to 255"},
		{change(func(c *Content) { c.Origin.Size = 256 }), "Origin.Size: 256"},
		{change(func(c *Content) { c.Origin.Address = member.Address{} }), "Origin.Address"},
		{change(func(c *Content) { c.StoreID = storeID(1) }), "StoreID: is not the id of the key"},
		{change(func(c *Content) { c.Key = testKey(2) }), "StoreID: is not the id of the key"},
		{change(func(c *Content) { c.Key = storekey.Key{} }), "StoreID: is not the id of the key"},
		{change(func(c *Content) { c.LeaseTimeout = -1 }), "LeaseTimeout: -1ns is negative"},
		{change(func(c *Content) { c.HoldTimeout = -1 }), "HoldTimeout: -1ns is negative"},
		{change(func(c *Content) { c.Origin.Address.Host = "a b" }), "Origin.Address"},
		{change(func(c *Content) { c.Promised.Ballot.Proposer.Port = 0 }), "Promised: "},
		{change(func(c *Content) { c.Accepted.ID.Ballot.Proposer.Host = "a b" }), "Accepted: "},
		{change(func(c *Content) { c.Held.Leader.Host = "\xff" }), "Held: "},
		{change(func(c *Content) { c.Held.Leader.Host = "[a]" }), "Held: "},
		{change(func(c *Content) { c.Held.Roster[0].Name = "\xff" }), "unprintable"},
		{change(func(c *Content) { c.Held.Roster[0].Name = "a\nb" }), "unprintable"},
		{change(func(c *Content) { c.Held.Roster[0].Status = member.Removed }), "removed"},
		{change(func(c *Content) { c.Held.Roster[0].Preference = -2 }), "invalid preference -2"},
		{change(func(c *Content) { c.Held.Roster[0].Labels = "zone=a" }), "not sorted lines"},
		{change(func(c *Content) { c.Held.Roster[0].Address = member.Address{} }),
			"without an address"},
		{change(func(c *Content) { c.Accepted.State.Roster[1].Address.Host = "zz" }),
			"Accepted.State: roster is not sorted"},
		{change(func(c *Content) { c.Held.Roster = make(member.Roster, member.MaxMembers+1) }),
			"roster of 256 members"},
		{changeRecord(0, func(r *member.Record) { r.Key = "" }), `Held: record key "" is empty`},
		{changeRecord(0, func(r *member.Record) { r.Key = "a\xff" }), "unprintable"},
		{changeRecord(2, func(r *member.Record) { r.Key = strings.Repeat("z", 257) }),
			"longer than 256"},
		{changeRecord(0, func(r *member.Record) { r.Value = make([]byte, 4097) }), "value of 4097"},
		{changeRecord(0, func(r *member.Record) { r.Owner.Address.Port = 0 }), "jobs/leader: "},
		{change(func(c *Content) { c.Held.Records = many(member.MaxRecords + 1) }), "2049 records"},
		{change(func(c *Content) {
			c.Held.Records = newTable(append(slices.Collect(full('<').All()), manyRecords(9)...)...)
		}), "the limit is 393216"},
	} {
		_, _, err := formatContent(c.content, mostRoom)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("format(%+v) = %v, want an error with %q", c.content, err, c.want)
		}
	}
}

// FuzzLoad reads arbitrary files, and arbitrary entries with valid checksums. Each must either fail
// with a known error and no value, or be a valid content that survives Save and Load. Reading must
// not be slow or allocate much memory.
func FuzzLoad(f *testing.F) {
	for _, d := range []Content{typical(), fresh()} {
		f.Add([]byte(payload(f, Content{}, d)), true)
	}
	c := three()
	f.Add([]byte(payload(f, Content{}, c[0])+"\n"+payload(f, c[0], c[1])+"\n"+
		payload(f, c[1], c[2])), true)
	if content, err := os.ReadFile(filepath.Join("testdata", goldenRelease, stateName)); err == nil {
		f.Add(content, false)
	}
	f.Add([]byte{}, false)
	f.Add([]byte("null"), true)
	f.Add(bytes.Repeat([]byte("["), 10_001), true)
	f.Fuzz(func(t *testing.T, content []byte, sealed bool) {
		if sealed { // add a valid checksum, because a fuzzer does not guess one
			content, _ = stateFile(strings.SplitN(string(content), "\n", 20)...)
		}
		d, err := parseContent(content)
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
			keys := slices.Collect(s.Records.All())
			if s.Records.Bytes() > member.MaxRecordsBytes || !slices.IsSortedFunc(keys, byKey) {
				t.Fatalf("%q gives the records %+v", content, s.Records)
			}
		}
		written := mustFormat(t, d)
		again, err := parseContent(written)
		if err != nil || !reflect.DeepEqual(sameNil(d), sameNil(again)) {
			t.Fatalf("%q gives %+v, written and read again %+v, %v", content, d, again, err)
		}
		if twice := mustFormat(t, again); !bytes.Equal(twice, written) {
			t.Fatalf("written twice:\n%s\n%s", written, twice)
		}
	})
}

func byKey(a, b member.Record) int { return strings.Compare(a.Key, b.Key) }

// sameNil replaces empty values so that equal contents are deeply equal.
func sameNil(d Content) Content {
	for _, s := range []*member.State{&d.Held, &d.Accepted.State} {
		if len(s.Roster) == 0 {
			s.Roster = nil
		}
		s.Records = newTable(slices.Collect(s.Records.All())...) // normalized, like a new table
	}
	return d
}
