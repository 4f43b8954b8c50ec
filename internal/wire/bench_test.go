// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
)

func BenchmarkKeepAlive(b *testing.B) { benchmark(b, keepAlive()) }

func BenchmarkAlignment(b *testing.B) { benchmark(b, alignment(5)) }

func BenchmarkFullAlignment(b *testing.B) {
	s := state(5)
	s.Records = most()
	benchmark(b, envelope(message.ClusterAlignment{State: s}))
}

func benchmark(b *testing.B, m message.Message) {
	frame, err := wire.Encode(m)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, len(frame))
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := wire.Append(buf, m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("scan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := wire.Scan(frame[3:]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := wire.Decode(frame); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("both", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			frame, err := wire.Append(buf, m)
			if err == nil {
				_, err = wire.Decode(frame)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodeEvent(b *testing.B) {
	frame, err := wire.EncodeEvent(wire.Event{Name: "a.b", Payload: make([]byte, 64)}, 1000)
	if err != nil {
		b.Fatal(err)
	}
	var names wire.Names
	b.ReportAllocs()
	for b.Loop() {
		if _, err := names.DecodeEvent(frame, 1000); err != nil {
			b.Fatal(err)
		}
	}
}
