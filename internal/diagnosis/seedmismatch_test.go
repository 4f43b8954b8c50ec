// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// TestWhoHasOtherSeedsIsBounded checks that a seed with a different list stays listed however long
// it is silent. Any other peer must stay listed for a minute after its last message. The number of
// peers must be bounded.
func TestWhoHasOtherSeedsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPeerLog(addresses(1, 2), addresses(1)[0])
		seed, stranger := addresses(2)[0], addresses(9)[0]
		s.noteSeeds(seed, false)
		s.noteSeeds(stranger, false)
		want := func(what string, want ...member.Address) {
			t.Helper()
			if got := s.otherSeeds(); !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		want("greeted", seed, stranger)
		time.Sleep(seedMismatchTimeout)
		s.noteMessage(message.Message{From: at(9, 0).Identity, Body: message.LeaderQuery{}})
		time.Sleep(seedMismatchTimeout)
		want("a minute after its word", seed, stranger)
		time.Sleep(time.Nanosecond)
		want("later", seed)
		for port := range uint16(3 * maxSeedMismatches) {
			s.noteSeeds(addresses(1000 + port)[0], false)
		}
		if got := s.otherSeeds(); len(got) > maxSeedMismatches || !slices.Contains(got, seed) {
			t.Errorf("got %d, with the seed: %t; want at most %d with it",
				len(got), slices.Contains(got, seed), maxSeedMismatches)
		}
		s.noteSeeds(seed, true)
		if slices.Contains(s.otherSeeds(), seed) {
			t.Error("a seed greeted with the same list: got it named, want not")
		}
	})
}
