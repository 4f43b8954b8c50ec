// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Types of events, to measure how much an event can grow when it is decoded.
type (
	wide     struct{ Fields [16]string } // 256 bytes
	wides    struct{ List []wide }
	widesBy  struct{ List []*wide }
	nameless struct{ List any }
	tables   struct{ List []map[string]string }
)

// TestDecodingOfManyValuesIsBounded checks that an event is refused if it would grow to 320 times
// its size when decoded. Any other event must stay within the bound that MaxEventValues documents
// for elements of 256 bytes.
func TestDecodingOfManyValuesIsBounded(t *testing.T) {
	const bound = MaxEventValues*2*256 + MaxEventBytes
	mux := receiver.NewMux()
	receiver.Handle(mux, drop[wides])
	receiver.Handle(mux, drop[widesBy])
	receiver.Handle(mux, drop[nameless])
	receiver.Handle(mux, drop[tables])
	if err := mux.Start(receiver.Setup{Scan: wire.Scan}); err != nil {
		t.Fatal(err)
	}
	defer mux.Close(context.Background())
	const most = MaxEventValues - 3 // minus the map around the list, its key, and the list itself
	for _, c := range []struct {
		name    string
		count   int
		element []byte
		scanned bool // whether the event passes the scan; decoding may fail
	}{
		{"wides", most, []byte{0xc0}, true},
		{"wides", most, []byte{0x80}, true},
		{"wides", most, []byte{0x01}, true},
		{"wides", most + 1, []byte{0xc0}, false},
		{"wides", MaxEventBytes - 64, []byte{0xc0}, false},
		{"widesBy", most, []byte{0x80}, true},
		{"nameless", most, []byte{0x80}, true},
		{"nameless", most / 3, []byte{0x81, 0xa0, 0xc0}, true},
		{"nameless", most / 2, []byte{0x91, 0x90}, true},
		{"tables", most / 3, []byte{0x81, 0xa0, 0xa0}, true},
	} {
		payload := append([]byte{0x81, 0xa4}, "List\xdd"...)
		payload = binary.BigEndian.AppendUint32(payload, uint32(c.count))
		payload = append(payload, bytes.Repeat(c.element, c.count)...)
		raw := receiver.Raw{Name: c.name, Payload: payload}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := mux.Deliver(t.Context(), receiver.Delivery{From: &member.Member{}, Raw: raw})
		runtime.ReadMemStats(&after)
		if refused := errors.Is(err, wire.ErrTooLarge); refused == c.scanned {
			t.Errorf("%s of %d %x: got %v, refused as too large: %t", c.name, c.count, c.element,
				err, refused)
		}
		limit := uint64(bound)
		if !c.scanned {
			limit = MaxEventBytes
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > limit {
			t.Errorf("%s of %d %x: %d KiB allocated for %d, want at most %d", c.name, c.count,
				c.element, got>>10, len(payload)>>10, limit>>10)
		}
	}
}

func drop[T any](context.Context, member.Member, T) error { return nil }
