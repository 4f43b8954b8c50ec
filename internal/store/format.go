// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	magic   = "athena-state"
	version = "5"
	// maxStateBytes is the maximum size of the state file. Two states of the largest
	// cluster, with the longest names and full tables of records, need only half of it.
	maxStateBytes = 20 << 20
	// sectorBytes is the size that a disk writes atomically. Entries begin and end at
	// sector boundaries.
	sectorBytes = 512
	// The room after the first entry is roomFactor times as large as the header and that entry, within
	// these bounds. With a factor of 1 and a thousand records, a save allocates twice the memory
	// (BenchmarkSave), because the file is replaced so often.
	roomFactor  = 4
	leastRoom   = 64 << 10
	mostRoom    = 1 << 20
	digestBytes = 2 * sha256.Size
	lengthBytes = 8
	entryHead   = digestBytes + 1 + lengthBytes + 1 // before the payload
	// entryEnd ends every entry, and roomEnd every sector of room.
	entryEnd, roomEnd = " \n", ".\n"
)

// unreleased lists the formats used before the first release.
var unreleased = []string{"1", "2", "3", "4"}

// image describes a valid state file: its content and the position of the next entry.
type image struct {
	holds Content
	root  string // digest of the first entry
	end   int    // end of the last entry
	size  int    // size of the file
}

// formatContent returns a state file with one entry and at most the given room for others. It
// rejects all content that parseContent would reject, so that every written file can be read.
func formatContent(c Content, room int) ([]byte, image, error) {
	payload, err := encodeEntry(Content{}, c)
	if err != nil {
		return nil, image{}, err
	}
	content, root, end := beginContent(payload, room)
	if len(content) > maxStateBytes {
		return nil, image{}, fmt.Errorf("%d bytes, the limit is %d", len(content), maxStateBytes)
	}
	return content, image{c, root, end, len(content)}, nil
}

// beginContent returns a state file whose first entry has the given payload, and the digest
// and the end of that entry.
func beginContent(payload []byte, room int) (content []byte, root string, end int) {
	header := func(size int) string { return fmt.Sprintf("%s %s %08d\n", magic, version, size) }
	at := len(header(0))
	end = at + len(sealEntry("", at, payload))
	size := end + min(max(roomFactor*end, leastRoom), room)
	content = append([]byte(header(size)), sealEntry(header(size), at, payload)...)
	content = append(content, bytes.Repeat([]byte(emptySector()), (size-end)/sectorBytes)...)
	return content, string(content[at : at+digestBytes]), end
}

// addContent returns the entry that adds c to the file, and the resulting file. The entry
// is nil if there is not enough room.
func (i image) addContent(c Content) ([]byte, image, error) {
	payload, err := encodeEntry(i.holds, c)
	if err != nil {
		return nil, image{}, err
	}
	entry := sealEntry(i.root, i.end, payload)
	end := i.end + len(entry)
	if end > i.size {
		return nil, image{}, nil
	}
	return entry, image{c, i.root, end, i.size}, nil
}

// sealEntry returns the entry at the given offset with the given payload: digest, length, payload,
// and spaces up to a newline. The digest of the first entry covers the header. The digest of a
// later entry covers the digest of the first entry. So if a crash brings back blocks of an earlier
// file, their entries are not valid in this file.
func sealEntry(root string, at int, payload []byte) []byte {
	body := fmt.Appendf(nil, "%0*d %s", lengthBytes, len(payload), payload)
	spaces := entryLast(at, len(payload)) - (at + entryHead + len(payload)) - len(entryEnd)
	return fmt.Appendf(nil, "%s %s%*s%s", digestEntry(root, at, body), body, spaces, "", entryEnd)
}

// entryLast returns the end of an entry at the given offset with a payload of the given length.
func entryLast(at, payload int) int {
	end := at + entryHead + payload + len(entryEnd) + sectorBytes - 1
	return end - end%sectorBytes
}

// emptySector returns one sector of the room for later entries.
func emptySector() string { return strings.Repeat(".", sectorBytes-1) + "\n" }

func digestEntry(root string, at int, body []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d ", root, at)
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// parseContent reads a state file. Errors wrap ErrCorrupt or ErrVersion.
func parseContent(content []byte) (Content, error) {
	if len(content) > maxStateBytes {
		return Content{}, corruptError("more than %d bytes", maxStateBytes)
	}
	first, rest, ok := bytes.Cut(content, []byte("\n"))
	fields := strings.Split(string(first), " ")
	switch {
	case !ok || len(fields) != 3 || fields[0] != magic:
		return Content{}, corruptError("no header in the first line")
	case fields[1] != version && isSoundAs(version, fields[2], rest):
		return Content{}, corruptError("the first line has the wrong version number %.20q", fields[1])
	case slices.Contains(unreleased, fields[1]):
		// These formats lack the key of the store, whose id other nodes know, and earlier ones the
		// cluster id and the origin. None of them can be added now.
		return Content{}, fmt.Errorf("%w %q, from before the first release, without a key; start "+
			"the version of Athena that wrote it or, if every node reports this, start each with an empty "+
			"directory: this makes a new cluster, whose tokens start over", ErrVersion, fields[1])
	case fields[1] != version:
		return Content{}, fmt.Errorf("%w %.20q: this program knows only %s; start the version of "+
			"Athena that wrote it, or a later one", ErrVersion, fields[1], version)
	case fields[2] != fmt.Sprintf("%08d", len(content)) || len(content)%sectorBytes != 0:
		return Content{}, corruptError("it has %d bytes, but its header states %.20q",
			len(content), fields[2])
	}
	c, err := parseEntries(content, len(first)+1)
	if err == nil {
		err = checkContent(c, slices.Collect(c.Held.Records.All()),
			slices.Collect(c.Accepted.State.Records.All()))
	}
	if err == nil {
		err = c.checkKey()
	}
	if err != nil {
		return Content{}, corruptError("%v", err)
	}
	return c, nil
}

// isSoundAs reports whether the file would be valid with a different version in its header.
// If so, the version is damaged, and no other version of Athena wrote the file.
func isSoundAs(version, field string, rest []byte) bool {
	_, err := parseContent(fmt.Appendf(nil, "%s %s %s\n%s", magic, version, field, rest))
	return err == nil
}

// parseEntries reads the entries. The first one begins at the given offset.
func parseEntries(content []byte, at int) (c Content, err error) {
	root := string(content[:at])
	for first := true; at < len(content); first = false {
		payload, end := entryAt(content, root, at)
		switch {
		case payload != nil:
		case first || !isUnfinished(content, root, at):
			return Content{}, fmt.Errorf("byte %d: the content does not match its checksum", at)
		default:
			return c, nil
		}
		if c, err = c.nextContent(payload); err != nil {
			return Content{}, fmt.Errorf("byte %d: %w", at, err)
		}
		if first {
			root = string(content[at : at+digestBytes])
		}
		at = end
	}
	return c, nil
}

// entryAt returns the payload and the end of the entry at the given offset, or nil if the entry is
// not valid.
func entryAt(content []byte, root string, at int) (payload []byte, end int) {
	if len(content)-at < entryHead {
		return nil, 0
	}
	sum, body := content[at:at+digestBytes], content[at+digestBytes+1:]
	length, err := strconv.ParseUint(string(body[:lengthBytes]), 10, 31)
	end = entryLast(at, int(length))
	if err != nil || end > len(content) {
		return nil, 0
	}
	body = body[:lengthBytes+1+int(length)]
	if string(sum) != digestEntry(root, at, body) {
		return nil, 0
	}
	return body[lengthBytes+1:], end
}

// isUnfinished reports whether the bytes after the last valid entry are unused room or an
// unfinished entry. A crash or a full disk leaves sectors of it empty or one half written, and Save
// does not return nil, so the node has not acted on the entry. Any other bytes are damage.
func isUnfinished(content []byte, root string, at int) bool {
	end, missing, room := at, false, emptySector()
	for p := at; p < len(content); p += sectorBytes {
		sector := content[p : p+sectorBytes]
		if string(sector) == room {
			continue
		}
		if bytes.ContainsFunc(bytes.TrimSuffix(sector, []byte("\n")), isControl) {
			return false // entries contain no control characters
		}
		if payload, _ := entryAt(content, root, p); payload != nil {
			return false // a complete entry after an invalid one
		}
		missing = missing || p > end
		end = p + sectorBytes
	}
	return missing || end == at || bytes.HasSuffix(content[:end], []byte(roomEnd)) ||
		end < len(content) && !bytes.HasSuffix(content[:end], []byte(entryEnd))
}

func isControl(r rune) bool { return r < ' ' }

func corruptError(why string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(why, args...))
}
