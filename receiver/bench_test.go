// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"testing"

	"github.com/athena-go/athena/member"
)

// BenchmarkDispatch measures the dispatch of an event of 64 bytes, from decoding its payload to
// running its handler.
func BenchmarkDispatch(b *testing.B) {
	type load struct{ Data []byte }
	mux, done := NewMux(), make(chan struct{})
	handled := 0
	Handle(mux, func(context.Context, member.Member, load) error {
		if handled++; handled == b.N {
			close(done)
		}
		return nil
	})
	if err := mux.Start(Setup{Scan: func([]byte) error { return nil }}); err != nil {
		b.Fatal(err)
	}
	defer mux.Close(b.Context())
	payload, err := mux.Encode(nil, load{make([]byte, 64)})
	if err != nil {
		b.Fatal(err)
	}
	from := sender(1)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		d := Delivery{From: &from, Raw: Raw{"load", payload}}
		if err := mux.Deliver(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
	<-done
}
