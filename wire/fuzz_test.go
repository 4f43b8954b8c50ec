// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/athena-go/athena/message"
	"github.com/athena-go/athena/wire"
)

// maxSeed keeps the attacks of megabytes out of the corpora.
const maxSeed = 4096

func FuzzDecode(f *testing.F) {
	for _, frame := range golden(f) {
		f.Add(frame)
	}
	for _, a := range attacks() {
		if len(a.body) <= maxSeed {
			f.Add(append([]byte{0xae, wire.Version, byte(message.KindVote)}, a.body...))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		got, err := wire.Decode(frame)
		checkSound(t, frame, got, err)
	})
}

func FuzzEvent(f *testing.F) {
	for _, e := range events() {
		f.Add(encodeEvent(f, e))
	}
	for _, a := range attacks() {
		if len(a.body) <= maxSeed {
			f.Add(append([]byte{0xae, wire.Version, 0xff}, a.body...))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		got, err := wire.DecodeEvent(frame, wire.DefaultEventBytes)
		checkSound(t, frame, got, err)
	})
}

// What Scan accepts, an independent reader finds to be one whole value.
func FuzzScan(f *testing.F) {
	for _, frame := range golden(f) {
		f.Add(frame[3:])
	}
	for _, a := range attacks() {
		if len(a.body) <= maxSeed {
			f.Add(a.body)
		}
	}
	f.Add([]byte{0x95, 0xca, 1, 2, 3, 4, 0xcb, 1, 2, 3, 4, 5, 6, 7, 8, 0xd0, 0x80, 0xd1, 1, 2, 0xe0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if wire.Scan(b) != nil {
			return
		}
		rest := bytes.NewReader(b)
		if err := msgpack.NewDecoder(rest).Skip(); err != nil || rest.Len() > 0 {
			t.Fatalf("Scan accepts %x; the library leaves %d bytes, error %v", b, rest.Len(), err)
		}
	})
}
