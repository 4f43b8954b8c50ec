// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/lowest"
)

// The age of a message grows while it waits.
func TestLettersAgeInTheQueue(t *testing.T) {
	l, now := golden[1].message, time.Unix(1, 0)
	var q queue
	q.add("x", l.bytes(), now.Add(-l.Age))
	for _, wait := range []time.Duration{0, time.Second, time.Minute, 1 << 60} {
		now = now.Add(wait)
		l.Age += wait
		_, got, err := unpackMessages(packMessages("me", q.take(now, packetBytes, 9)...))
		if err != nil || len(got) != 1 {
			t.Fatalf("%d messages, %v", len(got), err)
		}
		if age := got[0].Age; age != l.Age && age != 1<<32*time.Millisecond-time.Millisecond {
			t.Errorf("its age is %v, want %v", age, l.Age)
		}
	}
}

// Of the messages that fit, those that were sent least often come first; among these, later
// messages come first. Each message is sent the right number of times.
func TestQueueOrder(t *testing.T) {
	var q queue
	takes := func(want string, room, times int) {
		t.Helper()
		var got []string
		for _, l := range q.take(time.Now(), room, times) {
			got = append(got, strings.TrimRight(string(l[headBytes:]), "\x00"))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("took %v, want %s", got, want)
		}
	}
	put := func(name, text string) {
		q.add(name, []byte(strings.Repeat("\x00", headBytes)+text), time.Now())
	}
	takes("[]", packetBytes, 3)
	put("a", "a1")
	put("b", "b1")
	takes("[b1]", headBytes+2, 3)
	takes("[a1]", headBytes+2, 3)
	put("c", "long")
	put("a", "a2")
	takes("[a2 b1]", 2*headBytes+4, 3)
	takes("[long a2]", 2*headBytes+6, 3)
	takes("[long a2 b1]", packetBytes, 3)
	takes("[long]", packetBytes, 3)
	takes("[]", packetBytes, 3)
}

// Two messages of the same length, added to an empty queue, are both kept.
func TestNoLetterTakesAnothersPlace(t *testing.T) {
	g := lone("a", "b")
	now := time.Now()
	g.acceptMessage(now, "a", says(lowest.Declaration, "a", 1))
	g.node.queue.take(now, packetBytes, 9)
	g.acceptMessage(now, "a", says(lowest.Resignation, "a", 2))
	g.acceptMessage(now, "b", says(lowest.Proposal, "b", 1))
	if got := fmt.Sprint(g.queued(t)); got != "[1b1 3a2]" {
		t.Errorf("queued messages %s, want the resignation and the proposal", got)
	}
}

// A full queue drops a message that was sent most often, not the one just added.
func TestQueueIsBounded(t *testing.T) {
	var q queue
	q.add("often", golden[0].message.bytes(), time.Now())
	q.take(time.Now(), packetBytes, 9)
	for i := range maxQueued + 9 {
		q.add(name(i), golden[0].message.bytes(), time.Now())
		if len(q.waiting) > maxQueued || q.waiting[name(i)] == nil {
			t.Fatalf("%d messages are queued, the latest among them: %v",
				len(q.waiting), q.waiting[name(i)] != nil)
		}
		if i == maxQueued-1 && (q.waiting["often"] != nil || q.waiting[name(0)] == nil) {
			t.Error("the message that was sent most often is not dropped first")
		}
	}
}

// The number of transmissions is a multiple of the number that memberlist uses.
func TestTimes(t *testing.T) {
	for members, want := range map[int]int{1: 1, 9: 1, 10: 2, 99: 2, 100: 3, 1000: 4} {
		if got := transmissions(4, members); got != moreSent*4*want {
			t.Errorf("%d members: %d, want %d", members, got, moreSent*4*want)
		}
	}
}
