// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"
)

// maxQueued bounds the letters that wait. Those that were sent most often go first.
const maxQueued = 4096

// queue is the letters that wait to be sent on, by name: a later one takes the place of an
// earlier one. The zero queue is empty. It belongs to the lock of the node.
//
// That of memberlist takes two that are as long for one, and loses the first, where it
// was empty in between.
type queue struct {
	waiting map[string]*broadcast
	put     uint64 // how many were, which orders them
}

// broadcast is a letter that waits.
type broadcast struct {
	letter []byte
	said   time.Time // when its member said it, as counted here
	number uint64
	sent   int
}

// add queues a letter that was said then.
func (q *queue) add(name string, letter []byte, said time.Time) {
	if q.waiting == nil {
		q.waiting = map[string]*broadcast{}
	}
	q.put++
	q.waiting[name] = &broadcast{letter: letter, said: said, number: q.put}
	if len(q.waiting) > maxQueued {
		delete(q.waiting, slices.MaxFunc(slices.Collect(maps.Keys(q.waiting)), q.compare))
	}
}

// take is letters that fit into so many bytes, with their age: those that were sent least
// often, of these the latest. Each is taken so many times, and then forgotten.
func (q *queue) take(now time.Time, room, times int) (letters [][]byte) {
	for _, name := range slices.SortedFunc(maps.Keys(q.waiting), q.compare) {
		b := q.waiting[name]
		if len(b.letter) > room {
			continue
		}
		room -= len(b.letter)
		letter := slices.Clone(b.letter)
		binary.BigEndian.PutUint32(letter[ageAt:], milliseconds(now.Sub(b.said)))
		letters = append(letters, letter)
		if b.sent++; b.sent >= times {
			delete(q.waiting, name)
		}
	}
	return letters
}

// compare orders what waits, by name: what is to be sent first comes first.
func (q *queue) compare(a, b string) int {
	x, y := q.waiting[a], q.waiting[b]
	return cmp.Or(cmp.Compare(x.sent, y.sent), cmp.Compare(y.number, x.number))
}

// times is how often each of a number of members sends a letter, where mult is
// Config.RetransmitMult of memberlist.
func times(mult, members int) int {
	return moreSent * mult * int(math.Ceil(math.Log10(float64(members+1))))
}
