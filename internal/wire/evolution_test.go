// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
)

// These tests take frames apart and reassemble them with an independent library, which also
// shows that bodies are valid MessagePack.

func parse(t *testing.T, frame []byte) []any {
	t.Helper()
	var body []any
	if err := msgpack.Unmarshal(frame[3:], &body); err != nil {
		t.Fatalf("the library cannot read %x: %v", frame, err)
	}
	return body
}

func build(t *testing.T, frame []byte, body any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(frame[:3]), b...)
}

// structs calls f for each array of a frame that encodes a struct. The argument of f is a function
// that replaces the array. Below the body, an array is a list if its first element is an array.
func structs(of []any, depth int, replace func([]any), f func(at []any, replace func([]any))) {
	isList := false
	if depth > 1 {
		_, isList = of[0].([]any)
	}
	if !isList {
		f(of, replace)
	}
	for i, v := range of {
		if inner, ok := v.([]any); ok {
			structs(inner, depth+1, func(with []any) { of[i] = with }, f)
		}
	}
}

func TestLaterFieldsAreSkipped(t *testing.T) {
	later := []any{
		uint64(1), "text", []byte{1, 2}, nil, true, 1.5, map[string]any{"k": []any{1}},
	}
	for name, frame := range golden(t) {
		want, err := decodeAny(name, frame)
		if err != nil {
			t.Fatal(err)
		}
		body, tried := parse(t, frame), 0
		structs(body, 0, func(b []any) { body = b }, func(at []any, replace func([]any)) {
			longer := append(append([]any{}, at...), later...)
			if len(at) == 2 && name != goldenEvent { // a body; its third element is padding
				longer = append(append([]any{}, at...), []byte("padding"))
				longer = append(longer, later...)
			}
			replace(longer)
			changed := build(t, frame, body)
			got, err := decodeAny(name, changed)
			if err != nil {
				t.Errorf("%s with %v for %v: %v", name, longer, at, err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s with %v for %v (-want +got):\n%s", name, longer, at, diff)
			}
			replace(at)
			tried++
		})
		if tried == 0 {
			t.Errorf("%s: no struct was found", name)
		}
	}
}

// endsInTraits reports whether a struct is a roster entry, which ends with the traits of a member.
// Earlier versions do not write them.
func endsInTraits(at []any) bool {
	labels, ok := at[len(at)-1].(string)
	return ok && (labels == "" || labels == string(sampleTraits().Labels)) &&
		len(at) == 11
}

// earlierLengths returns the numbers of fields that earlier versions write for a struct.
func earlierLengths(name string, at []any) []int {
	switch {
	case endsInTraits(at):
		return []int{len(at) - 2}
	case name == "JoinClusterRequest" && len(at) == 9:
		return []int{5, 7} // without the runs, and earlier without the traits
	case name == "LeaderQuery" && len(at) == 4:
		return []int{2} // without the runs
	case name == "LeaderKeepAliveAck" && len(at) == 13:
		return []int{11, 12} // without the offer, and earlier without the hold timeout
	case name == "LeaderKeepAlive" && len(at) == 13:
		return []int{11, 12} // without the time of a save, and earlier without the voters heard
	case name == "LeaderStatusQueryResponse" && len(at) == 5:
		return []int{4} // without the time of a save
	case name == "Proposal" && len(at) == 15:
		return []int{14} // without the successors
	case name == "Vote" && len(at) == 20:
		return []int{19} // without the mark of a voter that does not lead
	case (name == "RecordRequest" || name == "Relayed") && len(at) == 6:
		return []int{3} // without the stamp that a worker has seen
	case name == goldenCall && len(at) == 5:
		return []int{4} // without the depth
	case name == "Greet" && len(at) == 17:
		return []int{14, 15} // without the proof of the store, and earlier without other timings
	}
	return nil
}

func TestMissingFieldsAreMalformed(t *testing.T) {
	for name, frame := range golden(t) {
		body := parse(t, frame)
		structs(body, 0, func(b []any) { body = b }, func(at []any, replace func([]any)) {
			for n := range at {
				replace(at[:n])
				got, err := decodeAny(name, build(t, frame, body))
				if slices.Contains(earlierLengths(name, at), n) {
					if err != nil {
						t.Errorf("%s without the last fields of %v: %v", name, at, err)
					}
					continue
				}
				if !errors.Is(err, wire.ErrMalformed) {
					t.Errorf("%s with %d fields of %v: got %+v, %v, want ErrMalformed",
						name, n, at, got, err)
				}
			}
			replace(at)
		})
	}
}

// TestGreetingWithoutAProofDecodes checks the greeting of protocol version 2, which ends before the
// key of the store. It decodes, so that the peer receives the reason why it is refused.
func TestGreetingWithoutAProofDecodes(t *testing.T) {
	frame := golden(t)[message.KindGreet.String()]
	body := parse(t, frame)
	fields := body[1].([]any)
	body[1] = fields[:len(fields)-2]
	want := typical()[0]
	greet := want.Body.(message.Greet)
	greet.StoreKey, greet.Proof = [32]byte{}, [64]byte{}
	want.Body = greet
	got, err := wire.Decode(build(t, frame, body))
	if err != nil {
		t.Fatalf("Decode of %v: %v", body, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Decode of %v (-want +got):\n%s", body, diff)
	}
	body[1] = fields[:len(fields)-1]
	got, err = wire.Decode(build(t, frame, body))
	checkRefused(t, "a key without a proof", got, err, "a field is missing")
}
