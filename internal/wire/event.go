// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"maps"
	"slices"
	"sync"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
)

const (
	// DefaultEventBytes is the default limit for the frame of a custom event.
	DefaultEventBytes = 1 << 20
	// MaxEventBytes is the highest limit that a caller should pass.
	MaxEventBytes = 16 << 20
	// MaxEventName bounds the name of an event, in bytes.
	MaxEventName = 128
	// MaxMetadata bounds the number of entries of Metadata.
	MaxMetadata = 16
	// MaxMetadataKey bounds a key of Metadata, in bytes.
	MaxMetadataKey = 128
	// MaxMetadataValue bounds a value of Metadata, in bytes.
	MaxMetadataValue = 1024
)

// Event is the envelope of a custom event.
type Event struct {
	Name     string            // name of its type, 1 to MaxEventName bytes
	Payload  []byte            // encoded for the receiver; nil if empty
	Metadata map[string]string // nil if empty
	Call     Call              // zero if the sender does not wait for the outcome
}

// EncodeEvent returns the frame of an event, which DecodeEvent accepts. If the frame would exceed
// the limit, it returns ErrTooLarge. Senders use a Draft instead.
func EncodeEvent(e Event, limit int) ([]byte, error) {
	if len(e.Payload) > limit {
		return nil, tooLarge(kindEvent, len(e.Payload), limit) // checked before copying
	}
	var d Draft
	b, err := d.Begin(e.Name)
	if err == nil {
		err = d.End(append(b, e.Payload...), e.Metadata, limit)
	}
	switch {
	case err != nil:
		return nil, err
	case e.Call.ID != 0:
		return d.AppendCall(nil, e.Call, limit)
	default:
		return d.frame, nil
	}
}

// DecodeEvent decodes the frame of an event, no longer than the limit. The payload is a slice of
// frame and is not checked: call Scan before decoding it as MessagePack.
func DecodeEvent(frame []byte, limit int) (Event, error) {
	return (*Names)(nil).DecodeEvent(frame, limit)
}

// Names keeps the names of decoded events: a name that it has is neither allocated nor checked
// again.
type Names struct {
	mu    sync.Mutex
	known map[string]string
}

// maxNames bounds Names, because peers choose the names.
const maxNames = 64

// nameOf returns the name that consists of b. It returns false if the name is not printable.
func (n *Names) nameOf(b []byte) (string, bool) {
	if n == nil {
		return string(b), member.IsPrintable(string(b))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.known[string(b)]; ok {
		return name, true
	}
	name := string(b)
	if !member.IsPrintable(name) {
		return "", false
	}
	if n.known == nil || len(n.known) == maxNames {
		n.known = make(map[string]string)
	}
	n.known[name] = name
	return name, true
}

// DecodeEvent is like the function DecodeEvent, but keeps the name. n may be nil.
func (n *Names) DecodeEvent(frame []byte, limit int) (e Event, err error) {
	kind := kindEvent
	if len(frame) > headerBytes && message.Kind(frame[2]) == kindCall {
		kind = kindCall
	}
	if kind == kindEvent && len(frame) <= limit {
		if e, ok := plainEvent(frame, n); ok {
			return e, nil
		}
	}
	c, err := readCustom(frame, limit, kind)
	if err != nil {
		return Event{}, err
	}
	if c.event(&e, n); c.err != nil {
		return Event{}, c.err
	}
	return e, nil
}

// noMetadata is the encoding of empty metadata by writeMetadata.
const noMetadata = "\xde\x00\x00"

// plainEvent decodes an event that a Draft has written without metadata, which is the
// common case. It returns false for every other frame, valid or not.
func plainEvent(frame []byte, names *Names) (e Event, ok bool) {
	const before, after = "\xae" + string(rune(Version)) + "\xff\xdc\x00\x03", noMetadata
	if len(frame) < len(before)+1 || string(frame[:len(before)]) != before {
		return e, false
	}
	class, n, at := head(frame, len(before))
	if class != text || n == 0 || n > MaxEventName || uint64(len(frame)-at) <= n {
		return e, false
	}
	class, length, begin := head(frame, at+int(n))
	if class != blob || uint64(len(frame)-begin) != length+uint64(len(after)) ||
		string(frame[len(frame)-len(after):]) != after {
		return e, false
	}
	if e.Name, ok = names.nameOf(frame[at : at+int(n)]); !ok {
		return e, false
	}
	if length > 0 {
		e.Payload = frame[begin : begin+int(length) : begin+int(length)]
	}
	return e, true
}

// event reads an event. Only a Draft writes events.
func (c *codec) event(e *Event, names *Names) {
	outer := c.enter()
	name, ok := c.take(c.next(text)), false
	switch e.Name, ok = names.nameOf(name[:min(len(name), MaxEventName)]); {
	case len(name) == 0:
		c.fail("an event without a name")
	case len(name) > MaxEventName:
		c.fail("a name of %d bytes, the limit is %d", len(name), MaxEventName)
	case !ok:
		c.fail("the name %s has unprintable characters", safetext.QuotePeerText(string(name)))
	}
	c.view(&e.Payload)
	e.Metadata = c.readMetadata()
	if c.kind == kindCall {
		c.call(&e.Call)
	}
	c.leave(outer)
}

// writeMetadata sorts the keys, so that equal events have equal bytes.
func (c *codec) writeMetadata(m map[string]string) {
	c.array.fields++
	if len(m) > MaxMetadata {
		c.fail("metadata of %d entries, the limit is %d", len(m), MaxMetadata)
		return
	}
	c.b = append(c.b, 0xde, 0, byte(len(m)))
	outer := c.array
	for _, k := range slices.Sorted(maps.Keys(m)) {
		v := m[k]
		c.text(&k, MaxMetadataKey)
		c.text(&v, MaxMetadataValue)
	}
	c.array = outer
}

// readMetadata refuses duplicate keys.
func (c *codec) readMetadata() map[string]string {
	n := c.next(dictionary)
	if n > MaxMetadata {
		c.fail("metadata of %d entries, the limit is %d", n, MaxMetadata)
	}
	if n == 0 || c.err != nil {
		return nil
	}
	outer := c.array
	c.array = scope{fields: int(2 * n)}
	m := make(map[string]string, n)
	for range n {
		var k, v string
		c.text(&k, MaxMetadataKey)
		c.text(&v, MaxMetadataValue)
		if _, twice := m[k]; twice {
			c.fail("the metadata key %s occurs twice", safetext.QuotePeerText(k))
		}
		m[k] = v
	}
	c.array = outer
	return m
}
