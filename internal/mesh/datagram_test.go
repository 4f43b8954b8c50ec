// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/athena-go/athena/transport"
)

// frames returns the lengths of the frames in a packet, as its receiver reads them.
func frames(t *testing.T, packet []byte) (lengths []int) {
	t.Helper()
	count, payload, err := measurePacket(packet)
	if err != nil {
		t.Fatalf("packet of %d bytes: %v", len(packet), err)
	}
	for frame, rest := cutPacket(packet); frame != nil; frame, rest = cutPacket(rest) {
		lengths = append(lengths, len(frame))
		payload -= len(frame)
	}
	if len(lengths) != count || payload != 0 {
		t.Fatalf("measured %d frames, found %d; the payload is off by %d bytes",
			count, len(lengths), payload)
	}
	return lengths
}

func TestDatagramsArePacked(t *testing.T) {
	for _, test := range []struct {
		lengths []int
		want    [][]int
		bytes   []int
	}{
		{[]int{1}, [][]int{{1}}, []int{3}},
		{[]int{MaxDatagramBytes}, [][]int{{MaxDatagramBytes}}, []int{transport.MaxPacketBytes}},
		{[]int{100, 200, 300}, [][]int{{100, 200, 300}}, []int{606}},
		{[]int{480, 478, 1}, [][]int{{480, 478}, {1}}, []int{transport.MaxPacketBytes, 3}},
		{[]int{580, 580, 580}, [][]int{{580}, {580}, {580}}, []int{crowdBytes, crowdBytes, 582}},
		{[]int{5, 960, 5}, [][]int{{5}, {960}, {5}}, []int{crowdBytes, transport.MaxPacketBytes, 7}},
		// There is one byte of padding, too short for a length.
		{[]int{597, 960}, [][]int{{597}, {960}}, []int{crowdBytes, transport.MaxPacketBytes}},
	} {
		var q datagramQueue
		for _, length := range test.lengths {
			q.push(bytes.Repeat([]byte{'x'}, length))
		}
		for i, want := range test.want {
			b := q.take()
			if got := frames(t, b.bytes); !slices.Equal(got, want) || b.frames != len(want) {
				t.Errorf("%v: packet %d has %d frames %v, want %v", test.lengths, i, b.frames, got, want)
			}
			if len(b.bytes) != test.bytes[i] {
				t.Errorf("%v: packet %d has %d bytes, want %d", test.lengths, i, len(b.bytes), test.bytes[i])
			}
			for _, length := range want {
				b.payload -= length
			}
			if b.payload != 0 {
				t.Errorf("%v: packet %d: the payload is off by %d bytes", test.lengths, i, b.payload)
			}
		}
		if b := q.take(); b.bytes != nil || b.frames != 0 {
			t.Errorf("%v: take returned more than was pushed: %x", test.lengths, b.bytes)
		}
	}
}

func TestDatagramQueueDropsTheOldest(t *testing.T) {
	var q datagramQueue
	dropped := 0
	for i := range maxOutgoing + 10 {
		dropped += q.push([]byte{byte(i)})
	}
	if b := q.take(); dropped != 10 || b.bytes[datagramHeaderBytes] != 10 {
		t.Errorf("%d dropped, the first one left is number %d, want 10 and 10", dropped, b.bytes[2])
	}
}

func TestPacketsCutOff(t *testing.T) {
	whole := []byte{0, 1, 'x', 0, 3, 'a', 'b', 'c'}
	for length := range len(whole) {
		_, _, err := measurePacket(whole[:length])
		// A packet that is cut between two frames, or one byte later, is a valid shorter packet.
		if sound := length <= 1 || length == 3 || length == 4; sound != (err == nil) {
			t.Errorf("%x: got %v", whole[:length], err)
		}
		if err != nil && !errors.Is(err, errGarbage) {
			t.Errorf("%x: got %v, want errGarbage", whole[:length], err)
		}
	}
	if _, _, err := measurePacket([]byte{0xff, 0xff, 1}); !errors.Is(err, errGarbage) {
		t.Errorf("a length beyond the packet: %v", err)
	}
}
