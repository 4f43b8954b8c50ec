// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"maps"
	"slices"
)

const (
	// DefaultEventBytes bounds the frame of a custom event unless the caller
	// of EncodeEvent and DecodeEvent sets another limit.
	DefaultEventBytes = 1 << 20
	// MaxEventBytes is the highest limit that a caller should set.
	MaxEventBytes = 16 << 20
	// MaxEventName bounds the name of an event, in bytes.
	MaxEventName = 128
	// MaxMetadata bounds the entries of Metadata.
	MaxMetadata = 16
	// MaxMetadataKey bounds a key of Metadata, in bytes.
	MaxMetadataKey = 128
	// MaxMetadataValue bounds a value of Metadata, in bytes.
	MaxMetadataValue = 1024
)

// Event is the envelope of a custom event.
type Event struct {
	Name     string            // of its type, 1 to MaxEventName bytes
	Payload  []byte            // the receiver's business; nil when empty
	Metadata map[string]string // nil when empty
}

// EncodeEvent returns the frame of an event, of at most limit bytes; a larger
// one is ErrTooLarge. What it encodes, DecodeEvent accepts.
func EncodeEvent(e Event, limit int) ([]byte, error) {
	// The bound is checked before the payload is copied.
	if len(e.Payload) > limit {
		return nil, tooLarge(kindEvent, len(e.Payload), limit)
	}
	c := codec{writing: true, kind: kindEvent}
	c.b = append(make([]byte, 0, len(e.Payload)+len(e.Name)+32), magic, Version, byte(kindEvent))
	c.event(&e)
	if c.err == nil && len(c.b) > limit {
		c.err = tooLarge(kindEvent, len(c.b), limit)
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.b, nil
}

// DecodeEvent reads the frame of an event, of at most limit bytes. It keeps
// nothing of frame. The payload is not looked at: who decodes it as
// MessagePack calls Scan first.
func DecodeEvent(frame []byte, limit int) (Event, error) {
	var e Event
	kind, err := checkHeader(frame, limit)
	if err != nil {
		return e, err
	}
	if kind != kindEvent {
		return e, fmt.Errorf("%w: %s, want a custom event", ErrUnknownKind, kindName(kind))
	}
	if err := scanBody(kind, frame); err != nil {
		return e, err
	}
	c := codec{kind: kind, b: frame, pos: headerBytes, array: scope{fields: 1}}
	if c.event(&e); c.err != nil {
		return Event{}, c.err
	}
	return e, nil
}

func (c *codec) event(e *Event) {
	outer := c.enter()
	if c.name(&e.Name, MaxEventName); e.Name == "" {
		c.fail("an event without a name")
	}
	c.bytes(&e.Payload)
	if c.writing {
		c.writeMetadata(e.Metadata)
	} else {
		e.Metadata = c.readMetadata()
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

// readMetadata refuses a key that comes twice.
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
			c.fail("metadata with the key %q twice", k)
		}
		m[k] = v
	}
	c.array = outer
	return m
}
