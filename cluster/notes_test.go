// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/message"
)

var errBoom = errors.New("boom")

func addresses(ports ...uint16) []member.Address {
	var list []member.Address
	for _, p := range ports {
		list = append(list, at(p, 0).Address)
	}
	return list
}

func (s *notes) isHopeless() bool {
	select {
	case <-s.hopeless:
		return true
	default:
		return false
	}
}

// TestJoinErrorSaysWhomAndWhat: each other seed with the last that was heard.
func TestJoinErrorSaysWhomAndWhat(t *testing.T) {
	var s notes
	s.start(addresses(1, 2, 3, 4), addresses(1)[0])
	s.connected(addresses(2)[0])
	s.joinResponse(message.Message{From: at(2, 0).Identity,
		Body: message.JoinClusterResponse{Reason: message.ReasonClusterFull}})
	s.note(addresses(3)[0], errBoom)
	s.note(addresses(9)[0], errors.New("a stranger")) // not asked
	err := error(&JoinError{Cause: errHopeless, Asked: s.answers()})
	want := `cluster: could not join: every other seed refused the connection
	127.0.0.1:2: join refused: cluster full
	127.0.0.1:3: boom
	127.0.0.1:4: no answer`
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if !errors.Is(err, errBoom) || !errors.Is(err, errHopeless) {
		t.Error("errors.Is does not find cause and answers")
	}
	if !strings.Contains(want, errSilent.Error()) {
		t.Errorf("want has no %q", errSilent)
	}
}

// TestHopelessWhenEverySeedRefused, and not before; a seed that refuses twice
// counts once, and an accepted join response is no refusal.
func TestHopelessWhenEverySeedRefused(t *testing.T) {
	var s notes
	seeds := addresses(1, 2, 3)
	s.start(seeds, seeds[0])
	s.refusal(seeds[1], errBoom)
	s.refusal(seeds[1], errBoom)
	s.refusal(addresses(9)[0], errBoom)
	if s.isHopeless() {
		t.Error("one of two other seeds refused: got hopeless")
	}
	s.refusal(seeds[2], errBoom)
	if !s.isHopeless() {
		t.Error("both other seeds refused: got hope")
	}
	s.refusal(seeds[2], errBoom)
}

func TestALoneSeedIsNeverHopeless(t *testing.T) {
	var s notes
	s.start(addresses(1), addresses(1)[0])
	s.refusal(addresses(9)[0], errBoom)
	if s.isHopeless() {
		t.Error("no other seed: got hopeless")
	}
}
