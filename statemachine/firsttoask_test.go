// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
)

// FirstToAsk returns the members whose turn comes first, without the node itself and without the
// leader. For a leader the result is empty, because a leader is connected to all members.
func TestFirstToAsk(t *testing.T) {
	b := formed(t, 7, 7)
	leader := b.quorate()
	var order []member.Identity
	for i := range b.nodes {
		if i != leader {
			order = append(order, b.view(i).Self)
		}
	}
	for i := range b.nodes {
		want := slices.DeleteFunc(slices.Clone(order[:3]),
			func(who member.Identity) bool { return who == b.view(i).Self })
		if i == leader {
			want = nil
		}
		if got := b.nodes[i].FirstToAsk(); !slices.Equal(got, want) {
			t.Errorf("n%d: got %v, want %v", i+1, got, want)
		}
	}
	// The order stays the same from the loss of a leader until the next leader.
	b.crash(leader)
	last := b.nodes[len(b.nodes)-1]
	if leader == len(b.nodes)-1 {
		last = b.nodes[len(b.nodes)-2]
	}
	b.until(time.Minute, "suspicion", func() bool { return last.View(b.now).Leader.IsZero() })
	if got := last.FirstToAsk(); !slices.Equal(got, order[:3]) {
		t.Errorf("after the loss: got %v, want %v", got, order[:3])
	}
}
