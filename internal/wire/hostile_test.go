// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

// attack is a body that crashes or misleads other decoders.
type attack struct {
	name string
	body []byte
}

func attacks() []attack {
	length := func(first byte, n uint32, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{first}, n), rest...)
	}
	deep := func(n int) []byte { return append(bytes.Repeat([]byte{0x91}, n), 0xc0) }
	return []attack{
		{"array of 4 billion in 5 bytes", length(0xdd, 1<<32-1)},
		{"array of 50 million in a field", append([]byte{0x91}, length(0xdd, 50e6, 0x90, 0x90)...)},
		{"binary of 2 billion in a field", append([]byte{0x91}, length(0xc6, 2e9, 1, 2)...)},
		{"string of 100 million in a field", append([]byte{0x91}, length(0xdb, 1e8, 'a', 'b')...)},
		{"map of 100 million in a field", append([]byte{0x91}, length(0xdf, 1e8, 0xa0, 0xa0)...)},
		{"map of 2 billion, whose double overflows", length(0xdf, 1<<31, 0xa0, 0xa0)},
		{"extension of 1 billion", length(0xc9, 1e9, 5, 1, 2, 3)},
		{"depth of 2 million", deep(2_000_000)},
		{"depth of 9", deep(9)},
		{"depth of 9, the last empty", append(bytes.Repeat([]byte{0x91}, 8), 0x90)},
		{"depth of maps", append(bytes.Repeat([]byte{0x81, 0xa1, 'k'}, 9), 0xc0)},
		{"depth of 6 million in an unknown field",
			append([]byte{0x93, 0x90, 0x90}, deep(6_000_000)...)},
		{"bytes after the value", []byte{0x90, 0xc0}},
		{"no bytes", nil},
		{"a byte that starts no value", []byte{0x91, 0xc1}},
		{"extension", []byte{0xd4, 0x05, 0x00}},
		{"timestamp of 16 bytes", append([]byte{0xd8, 0xff}, make([]byte, 16)...)},
		{"timestamp truncated", []byte{0xd6, 0xff, 0, 0, 0}},
		{"array one short", []byte{0x92, 0x01}},
		{"map one short", []byte{0x82, 0x01, 0x01, 0x01}},
		{"integer truncated", []byte{0xcf, 1, 2, 3, 4, 5, 6, 7}},
		{"length truncated", []byte{0xda, 0x00}},
		{"string one short", []byte{0xa3, 'a', 'b'}},
	}
}

func TestScanRefuses(t *testing.T) {
	for _, a := range attacks() {
		if err := wire.Scan(a.body); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: Scan = %v, want ErrMalformed", a.name, err)
		}
	}
}

// TestDecodeRefusesCheaply checks that Decode refuses the same bodies in a frame and
// allocates little.
func TestDecodeRefusesCheaply(t *testing.T) {
	for _, a := range attacks() {
		frame := append([]byte{0xae, wire.Version, 0}, a.body...)
		for _, kind := range append(kinds(), 0xff) {
			frame[2] = byte(kind)
			if got, err := decodeEither(frame); err == nil {
				t.Errorf("%s as %s: got %+v, want an error", a.name, kind, got)
			}
		}
	}
	for name, frame := range hostileFrames(t) {
		if _, err := decodeEither(frame); err == nil {
			t.Errorf("%s: no error", name)
		}
		limit := uint64(cheapFactor*len(frame) + cheapBytes)
		if got := allocated(func() { _, _ = decodeEither(frame) }); got > limit {
			t.Errorf("%s: %d bytes allocated for a frame of %d, want at most %d",
				name, got, len(frame), limit)
		}
	}
}

// Decoding a frame may allocate cheapFactor times its length, plus cheapBytes for an error and its
// text.
var cheapFactor = 4

const cheapBytes = 4096

// allocated returns the number of bytes that f allocates. It takes the minimum of several runs,
// because the runtime's own allocations are counted too.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 5 {
		least = min(least, allocatedOnce(f))
	}
	return least
}

func allocatedOnce(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func kinds() []message.Kind {
	var all []message.Kind
	for k := message.Kind(1); k < message.Kinds; k++ {
		all = append(all, k)
	}
	return all
}

func decodeEither(frame []byte) (any, error) {
	if len(frame) <= 2 {
		return wire.Decode(frame)
	}
	switch frame[2] {
	case 0xff, 0xfe:
		return wire.DecodeEvent(frame, wire.MaxEventBytes)
	case 0xfd:
		return wire.DecodeAnswer(frame, wire.MaxEventBytes)
	case 0xfc:
		return wire.DecodeCancel(frame)
	default:
		return wire.Decode(frame)
	}
}

// hostileFrames returns frames that pass Scan and are refused later, after decoding has allocated
// as much as possible.
func hostileFrames(t *testing.T) map[string][]byte {
	out := make(map[string][]byte)
	for _, a := range attacks() {
		out[a.name] = append([]byte{0xae, wire.Version, byte(message.KindVote)}, a.body...)
	}
	frame := encode(t, alignment(3))
	body := parse(t, frame)
	state := body[1].([]any)[0].([]any)
	state[4] = make([]any, 255)
	out["roster of nils"] = build(t, frame, body)
	for i := range state[4].([]any) {
		state[4].([]any)[i] = []any{}
	}
	out["roster of empty arrays"] = build(t, frame, body)
	out["records of the least bytes"] = build(t, encode(t, vote()), leastRecords(t, 1))
	out["records without values"] = build(t, encode(t, vote()), leastRecords(t, 0))
	update := parse(t, golden(t)[message.KindRecordUpdate.String()])
	short := make([]any, member.MaxRecords)
	for i := range short {
		short[i] = []any{"aaa"}
	}
	update[1].([]any)[3] = short
	out["keys of the least bytes"] = build(t, golden(t)[message.KindRecordUpdate.String()], update)
	body[0].([]any)[0] = strings.Repeat("h", 200_000)
	out["host of 200,000 bytes"] = build(t, frame, body)
	out["event with a null after its payload"] = build(t, []byte{0xae, wire.Version, 0xff},
		[]any{"name", make([]byte, 100_000), nil})
	return out
}

func vote() message.Message {
	for _, m := range typical() {
		if m.Body.Kind() == message.KindVote {
			return m
		}
	}
	panic("no vote is typical")
}

// leastRecords returns the body of a vote with two tables. Each table has as many records as
// possible. They are as short as a value of the given size allows. Only the last key is a
// duplicate, so all records are read before the fault is found.
func leastRecords(t *testing.T, value int) []any {
	t.Helper()
	body := parse(t, encode(t, vote()))
	fields := body[1].([]any)
	accepted := fields[len(fields)-5].([]any)
	for n, state := range []any{accepted[len(accepted)-1], fields[len(fields)-2]} {
		table := make([]any, member.MaxRecords)
		for i := range table {
			key := string([]byte{'0' + byte(i/64), '0' + byte(i%64)})
			table[i] = []any{key, make([]byte, value), "", 0, make([]byte, 16), 0, 0, 0, 0, false}
		}
		if n == 1 {
			table[len(table)-1] = table[len(table)-2]
		}
		state.([]any)[5] = table
	}
	return body
}

func TestDepthOf8IsAccepted(t *testing.T) {
	for _, b := range [][]byte{
		append(bytes.Repeat([]byte{0x91}, 8), 0xc0),
		append(bytes.Repeat([]byte{0x91}, 7), 0x90),
		append(bytes.Repeat([]byte{0x81, 0xa1, 'k'}, 8), 0xc0),
		append(bytes.Repeat([]byte{0x92, 0x01}, 8), 0x80),
	} {
		err := wire.Scan(b)
		if want := b[len(b)-1] != 0x80; (err == nil) != want {
			t.Errorf("Scan(%x) = %v, want accepted: %v", b, err, want)
		}
	}
}

// TestScanBoundsTheNumberOfValues checks that elements, keys and containers are all
// counted.
func TestScanBoundsTheNumberOfValues(t *testing.T) {
	list := func(n int, of ...byte) []byte {
		head := binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(n))
		return append(head, bytes.Repeat(of, n)...)
	}
	entries := func(n int) []byte {
		head := binary.BigEndian.AppendUint32([]byte{0xdf}, uint32(n))
		return append(head, bytes.Repeat([]byte{0xa0, 0xc0}, n)...)
	}
	for _, c := range []struct {
		name string
		body []byte
		want error
	}{
		{"as many as there may be", list(wire.MaxValues-1, 0xc0), nil},
		{"one more", list(wire.MaxValues, 0xc0), wire.ErrTooLarge},
		{"lists of one", list(wire.MaxValues/2-1, 0x91, 0x00), nil},
		{"more lists of one", list(wire.MaxValues/2, 0x91, 0x00), wire.ErrTooLarge},
		{"entries", entries(wire.MaxValues/2 - 1), nil},
		{"more entries", entries(wire.MaxValues / 2), wire.ErrTooLarge},
		{"one value of many bytes", append([]byte{0xc6, 0, 0x10, 0, 0}, make([]byte, 1<<20)...), nil},
		{"floats that fill an event", list(wire.DefaultEventBytes/9, 0xcb, 1, 2, 3, 4, 5, 6, 7, 8), nil},
	} {
		if err := wire.Scan(c.body); !errors.Is(err, c.want) {
			t.Errorf("%s: Scan = %v, want %v", c.name, err, c.want)
		}
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	for name, frame := range golden(t) {
		allocs := testing.AllocsPerRun(100, func() {
			if err := wire.Scan(frame[3:]); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("Scan of %s: %v allocations, want 0", name, allocs)
		}
	}
}

// TestKeepAliveAllocations checks the hot path of the simulator: encoding into a large
// enough buffer allocates nothing, and decoding allocates only the body and three hosts.
func TestKeepAliveAllocations(t *testing.T) {
	m := keepAlive()
	buf := make([]byte, 0, 512)
	frame := encode(t, m)
	if got := testing.AllocsPerRun(100, func() { _, _ = wire.Append(buf, m) }); got != 0 {
		t.Errorf("Append: %v allocations, want 0", got)
	}
	if got := testing.AllocsPerRun(100, func() { _, _ = wire.Decode(frame) }); got > 4 {
		t.Errorf("Decode: %v allocations, want at most 4", got)
	}
}

func TestFrameHeader(t *testing.T) {
	good := encode(t, keepAlive())
	event := encodeEvent(t, events()[0])
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	system := func(b []byte) error { _, err := wire.Decode(b); return err }
	custom := func(b []byte) error {
		_, err := wire.DecodeEvent(b, wire.DefaultEventBytes)
		return err
	}
	for _, c := range []struct {
		name  string
		call  func([]byte) error
		frame []byte
		want  error
	}{
		{"good", system, good, nil},
		{"good event", custom, event, nil},
		{"other magic", system, change(0, 0x16), wire.ErrMalformed},
		{"version 0", system, change(1, 0), wire.ErrVersion},
		{"later version", system, change(1, wire.Version+1), wire.ErrVersion},
		{"kind 0", system, change(2, 0), wire.ErrUnknownKind},
		{"first unknown kind", system, change(2, byte(message.Kinds)), wire.ErrUnknownKind},
		{"last unknown kind", system, change(2, 0xfe), wire.ErrUnknownKind},
		{"event as message", system, event, wire.ErrUnknownKind},
		{"message as event", custom, good, wire.ErrUnknownKind},
		{"longest frame", system, append(good, make([]byte, wire.MaxFrameBytes-len(good))...),
			wire.ErrMalformed},
		{"too long a frame", system, append(good, make([]byte, wire.MaxFrameBytes+1-len(good))...),
			wire.ErrTooLarge},
		{"too long an event", custom, append(event, make([]byte, wire.DefaultEventBytes)...),
			wire.ErrTooLarge},
	} {
		if err := c.call(c.frame); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

type foreign struct{}

func (foreign) Kind() message.Kind { return message.KindGreet }

func TestEncodeRefusesWhatIsNoMessage(t *testing.T) {
	for _, body := range []message.Body{nil, foreign{}, &message.Greet{}} {
		if _, err := wire.Encode(envelope(body)); !errors.Is(err, wire.ErrUnknownKind) {
			t.Errorf("Encode(%T) = %v, want ErrUnknownKind", body, err)
		}
	}
}

// checkRefused checks that err is ErrMalformed and contains the wanted text, or is nil if that text
// is empty.
func checkRefused(t *testing.T, name string, got any, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: got %v, want no error", name, err)
	case want == "":
	case !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), want):
		t.Errorf("%s: got %+v, %v, want ErrMalformed with %q", name, got, err, want)
	}
}

// set returns a copy of a golden frame with one field replaced.
func set(t *testing.T, kind message.Kind, value any, path ...int) []byte {
	t.Helper()
	frame := golden(t)[kind.String()]
	body := parse(t, frame)
	at := body
	for _, i := range path[:len(path)-1] {
		at = at[i].([]any)
	}
	at[path[len(path)-1]] = value
	return build(t, frame, body)
}

// rangeCase replaces one field of a golden frame.
type rangeCase struct {
	name  string
	kind  message.Kind
	value any
	path  []int
	want  string // part of the error; "" if none is expected
}

func plainRanges() []rangeCase {
	const (
		greet  = message.KindGreet
		joined = message.KindJoinClusterResponse
		alive  = message.KindLeaderKeepAlive
	)
	text := func(n int) string { return strings.Repeat("x", n) }
	return []rangeCase{
		{"the largest size", greet, uint8(255), []int{1, 3}, ""},
		{"256 as a size", greet, uint16(256), []int{1, 3}, "256 is out of range"},
		{"300 into a uint8", joined, uint16(300), []int{1, 1}, "300 is out of range"},
		{"255 into a uint8", joined, uint16(255), []int{1, 1}, ""},
		{"65,536 into a uint16", greet, uint32(65_536), []int{1, 11}, "65536 is out of range"},
		{"65,535 into a uint16, wide", greet, uint64(65_535), []int{1, 11}, ""},
		{"negative into a uint64", joined, int8(-1), []int{1, 2}, "got a negative integer"},
		{"positive in a signed form", joined, int64(77), []int{1, 2}, ""},
		{"2^63 into an int64", alive, uint64(1 << 63), []int{1, 6}, "fit into an int64"},
		{"-1 into an int64", alive, int8(-1), []int{1, 6}, ""},
		{"float for an integer", joined, 1.0, []int{1, 2}, "want an unsigned integer, got a float"},
		{"nil for an integer", joined, nil, []int{1, 2}, "got nil"},
		{"1 for a boolean", greet, uint8(1), []int{1, 0}, "want a boolean"},
		{"nil for a boolean", greet, nil, []int{1, 0}, "want a boolean, got nil"},
		{"binary for a string", greet, []byte("n"), []int{1, 1}, "want a string, got a binary"},
		{"nil for a string", greet, nil, []int{1, 1}, "want a string, got nil"},
		{"broken UTF-8", greet, "a\xff", []int{1, 1}, "not UTF-8"},
		{"the longest name", greet, text(128), []int{1, 1}, ""},
		{"a longer name", greet, text(129), []int{1, 1}, "a string of 129"},
		{"the longest cluster name", greet, text(255), []int{1, 2}, ""},
		{"a longer cluster name", greet, text(256), []int{1, 2}, "a string of 256"},
		{"a name of many scripts", greet, "Größe 東京", []int{1, 1}, ""},
		{"a name of two lines", greet, "n1\nfake", []int{1, 1}, `the name "n1\nfake"`},
		{"a name that steers a terminal", greet, "\x1b[2J", []int{1, 1}, `the name "\x1b[2J"`},
		{"a name that turns the line round", greet, "n\u202e1", []int{1, 1}, `the name "n\u202e1"`},
		{"a joiner's name", message.KindJoinClusterRequest, "\r", []int{1, 0}, `the name "\r"`},
		{"a cluster's name", greet, "\u200b", []int{1, 2}, `the name "\u200b"`},
		{"an escape in a host", greet, "a\x1b", []int{0, 4}, "invalid address"},
		{"a timing of 0", greet, uint8(0), []int{1, 5}, ""},
		{"a negative timing", greet, int64(-1), []int{1, 10}, "negative duration"},
		{"a store id of 15 bytes", greet, make([]byte, 15), []int{0, 2}, "store id of 15"},
		{"a store id of 17 bytes", greet, make([]byte, 17), []int{0, 2}, "store id of 17"},
		{"a string as store id", greet, text(16), []int{0, 2}, "want a binary"},
		{"a store key of 32 bytes", greet, make([]byte, 32), []int{1, 15}, ""},
		{"a store key of 31 bytes", greet, make([]byte, 31), []int{1, 15}, "key of 31 bytes, want 32"},
		{"a store key of 33 bytes", greet, make([]byte, 33), []int{1, 15}, "key of 33 bytes, want 32"},
		{"no byte of a store key", greet, []byte{}, []int{1, 15}, "key of 0 bytes, want 32"},
		{"a string as store key", greet, text(32), []int{1, 15}, "want a binary"},
		{"nil for a store key", greet, nil, []int{1, 15}, "want a binary, got nil"},
		{"a proof of 64 bytes", greet, make([]byte, 64), []int{1, 16}, ""},
		{"a proof of 63 bytes", greet, make([]byte, 63), []int{1, 16}, "proof of 63 bytes, want 64"},
		{"a proof of 65 bytes", greet, make([]byte, 65), []int{1, 16}, "proof of 65 bytes, want 64"},
		{"no byte of a proof", greet, []byte{}, []int{1, 16}, "proof of 0 bytes, want 64"},
		{"a string as proof", greet, text(64), []int{1, 16}, "want a binary"},
		{"the longest host", greet, text(255), []int{0, 4}, ""},
		{"a longer host", greet, text(256), []int{0, 4}, "a string of 256"},
		{"a host without a port", greet, uint8(0), []int{0, 5}, "invalid address"},
		{"a port without a host", greet, "", []int{0, 4}, "invalid address"},
		{"a port of 65,536", greet, uint32(65_536), []int{0, 5}, "65536 is out of range"},
		{"a space in a host", greet, "a b", []int{0, 4}, "invalid address"},
		{"an array for a header", greet, []any{}, []int{0}, "a field is missing"},
		{"an integer for a header", greet, uint8(1), []int{0}, "want an array"},
	}
}

func rosterRanges(t *testing.T) []rangeCase {
	const (
		align  = message.KindClusterAlignment
		status = message.KindMemberStatusUpdate
		vote   = message.KindVote
	)
	body := parse(t, golden(t)[align.String()])
	entries := body[1].([]any)[0].([]any)[4].([]any)
	a, b := entries[0], entries[1]
	many := make([]any, member.MaxMembers+1)
	for i := range many {
		many[i] = a
	}
	return []rangeCase{
		{"status joining", align, uint8(1), []int{1, 0, 4, 0, 6}, ""},
		{"status leaving", align, uint8(4), []int{1, 0, 4, 0, 6}, ""},
		{"status none", align, uint8(0), []int{1, 0, 4, 0, 6}, "0 is out of range"},
		{"status removed", align, uint8(5), []int{1, 0, 4, 0, 6}, "5 is out of range"},
		{"status 300", align, uint16(300), []int{1, 0, 4, 0, 6}, "300 is out of range"},
		{"status none in an update", status, uint8(0), []int{1, 2, 6}, "0 is out of range"},
		{"status removed in an update", status, uint8(5), []int{1, 2, 6}, "5 is out of range"},
		{"stage 0", vote, uint8(0), []int{1, 0}, "0 is out of range"},
		{"stage 3", vote, uint8(3), []int{1, 0}, "3 is out of range"},
		{"a name in a roster", align, "a\x07", []int{1, 0, 4, 0, 4}, `the name "a\a"`},
		{"a name in an update", status, "a\x07", []int{1, 2, 4}, `the name "a\a"`},
		{"the preference -1", status, int8(-1), []int{1, 2, 9}, ""},
		{"the preference -2", status, int8(-2), []int{1, 2, 9}, "-2 is out of range"},
		{"the preference 101", status, uint8(101), []int{1, 2, 9}, "101 is out of range"},
		{"the preference 256", status, uint16(256), []int{1, 2, 9}, "256 is out of range"},
		{"labels of 512 bytes", status, labels(512), []int{1, 2, 10}, ""},
		{"labels of 513 bytes", status, labels(513), []int{1, 2, 10}, "a string of 513"},
		{"labels out of order", status, "b=1\na=2\n", []int{1, 2, 10}, "not sorted lines"},
		{"a label twice", status, "a=1\na=2\n", []int{1, 2, 10}, "not sorted lines"},
		{"a label without a key", status, "=1\n", []int{1, 2, 10}, "not sorted lines"},
		{"a label without a value", status, "a\n", []int{1, 2, 10}, "not sorted lines"},
		{"an unfinished label", status, "a=1", []int{1, 2, 10}, "not sorted lines"},
		{"a label that steers a terminal", status, "a=\x1b[2J\n", []int{1, 2, 10}, "not printable"},
		{"an empty roster", align, []any{}, []int{1, 0, 4}, ""},
		{"a member that is a number", align, []any{1, 2}, []int{1, 0, 4}, "want an array"},
		{"more members than bytes", align, make([]any, 25), []int{1, 0, 4}, "a roster of length 25, but"},
		{"a roster out of order", align, []any{b, a}, []int{1, 0, 4}, "not sorted"},
		{"a roster with one twice", align, []any{b, b}, []int{1, 0, 4}, "not sorted"},
		{"a roster of 256", align, many, []int{1, 0, 4}, "a roster of length 256"},
	}
}

// labels returns the text of one label that takes n bytes.
func labels(n int) string { return "k=" + strings.Repeat("v", n-3) + "\n" }

func keys(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = []any{fmt.Sprintf("%08d", i)}
	}
	return out
}

func recordRanges(t *testing.T) []rangeCase {
	const (
		align  = message.KindClusterAlignment
		update = message.KindRecordUpdate
		ask    = message.KindRecordRequest
	)
	text := func(n int) string { return strings.Repeat("x", n) }
	table := parse(t, golden(t)[align.String()])[1].([]any)[0].([]any)[5].([]any)
	a, b := table[0], table[1]
	many := func(n, value int) []any {
		out := make([]any, n)
		for i := range out {
			r := slices.Clone(a.([]any))
			r[0], r[1] = fmt.Sprintf("%08d", i), make([]byte, value)
			out[i] = r
		}
		return out
	}
	conditions, changes := make([]any, message.MaxConditions+1), make([]any, message.MaxChanges+1)
	for i := range conditions {
		conditions[i] = []any{text(8), 1, 1}
		changes[i] = []any{text(8), false, []byte("v"), false, 1}
	}
	state, set, dropped := []int{1, 0, 5}, []int{1, 2}, []int{1, 3}
	return []rangeCase{
		{"no records", align, []any{}, state, ""},
		{"nil for records", align, nil, state, "want an array, got nil"},
		{"records out of order", align, []any{b, a}, state, "not sorted by key"},
		{"a record twice", align, []any{a, a}, state, "not sorted by key"},
		{"set out of order", update, []any{b, a}, set, "not sorted by key"},
		{"set twice", update, []any{a, a}, set, "not sorted by key"},
		{"dropped out of order", update, []any{[]any{"beta"}, []any{"alpha"}}, dropped, "not sorted"},
		{"dropped twice", update, []any{[]any{"beta"}, []any{"beta"}}, dropped, "not sorted"},
		{"as many as there may be", align, many(member.MaxRecords, 0), state, ""},
		{"one record more", align, many(member.MaxRecords+1, 0), state, "a table of length 2049"},
		{"one set more", update, many(member.MaxRecords+1, 0), set, "a table of length 2049"},
		{"as many dropped as there may be", update, keys(member.MaxRecords), dropped, ""},
		{"one dropped more", update, keys(member.MaxRecords + 1), dropped, "keys of length 2049"},
		{"more records than bytes", align, make([]any, 40), state, "a table of length 40, but"},
		{"more keys than bytes", update, make([]any, 99), dropped, "keys of length 99, but"},
		{"more conditions than bytes", ask, make([]any, 30), []int{1, 1}, "conditions of length 30, but"},
		{"more changes than bytes", ask, make([]any, 30), []int{1, 2}, "changes of length 30, but"},
		{"one condition more", ask, conditions, []int{1, 1}, "conditions of length 65"},
		{"as many conditions as there may be", ask, conditions[1:], []int{1, 1}, ""},
		{"one change more", ask, changes, []int{1, 2}, "changes of length 65"},
		{"as many changes as there may be", ask, changes[1:], []int{1, 2}, ""},
		{"records of too many bytes", align, many(100, 4000), state, "the limit is 393216"},
		{"set of too many bytes", update, many(100, 4000), set, "the limit is 393216"},
		{"an empty key", align, "", []int{1, 0, 5, 0, 0}, "the key \"\""},
		{"the longest key", align, text(256), []int{1, 0, 5, 2, 0}, ""},
		{"a longer key", align, text(257), []int{1, 0, 5, 2, 0}, "a string of 257"},
		{"a key of two lines", align, "a\nb", []int{1, 0, 5, 0, 0}, `the key "a\nb"`},
		{"a key that is set", update, "", []int{1, 2, 0, 0}, `the key ""`},
		{"a key that is dropped", update, "\x1b", []int{1, 3, 0, 0}, `the key "\x1b"`},
		{"a key in a condition", ask, "", []int{1, 1, 0, 0}, `the key ""`},
		{"a key in a change", ask, text(257), []int{1, 2, 0, 0}, "a string of 257"},
		{"the longest value", align, make([]byte, 4096), []int{1, 0, 5, 0, 1}, ""},
		{"a longer value", align, make([]byte, 4097), []int{1, 0, 5, 0, 1}, "a binary of 4097"},
		{"a longer value in a change", ask, make([]byte, 4097), []int{1, 2, 0, 2}, "a binary of 4097"},
		{"a string as value", align, "v", []int{1, 0, 5, 0, 1}, "want a binary"},
		{"an owner without a port", align, 0, []int{1, 0, 5, 0, 3}, "invalid address"},
		{"a boolean for revoked", align, 1, []int{1, 0, 5, 0, 9}, "want a boolean"},
	}
}

func TestRangesAreChecked(t *testing.T) {
	cases := slices.Concat(plainRanges(), rosterRanges(t), recordRanges(t))
	for _, c := range cases {
		got, err := wire.Decode(set(t, c.kind, c.value, c.path...))
		checkRefused(t, c.name, got, err, c.want)
	}
}

func TestPaddingIsABinary(t *testing.T) {
	frame := golden(t)[message.KindLeaderQuery.String()]
	body := parse(t, frame)
	got, err := wire.Decode(build(t, frame, append(body, []byte("any bytes"))))
	checkRefused(t, "a binary as padding", got, err, "")
	got, err = wire.Decode(build(t, frame, append(body, "text")))
	checkRefused(t, "a string as padding", got, err, "want a binary")
}

func TestSenderMustHaveAnAddress(t *testing.T) {
	frame := golden(t)[message.KindGreet.String()]
	body := parse(t, frame)
	header := body[0].([]any)
	header[0], header[1] = "", uint8(0)
	_, err := wire.Decode(build(t, frame, body))
	if !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), "sender has no address") {
		t.Errorf("got %v, want ErrMalformed: the sender has no address", err)
	}
}

func TestBodiesAreMessagePack(t *testing.T) {
	for name, frame := range golden(t) {
		dec := msgpack.NewDecoder(bytes.NewReader(frame[3:]))
		if _, err := dec.DecodeInterface(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
