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

// maxQueued is the maximum number of waiting messages. If the queue is full, it drops the message
// that was sent most often.
const maxQueued = 4096

// queue holds the messages that wait to be sent. A message replaces an earlier one with the same
// name. The zero queue is empty. The mutex of the node guards it.
//
// The queue of memberlist has a bug: it can lose the first of two messages of the same length. If
// it is empty before each of the two is added, it treats them as the same message.
type queue struct {
	waiting map[string]*broadcast
	put     uint64 // number of messages so far, which orders them
}

// broadcast is a waiting message.
type broadcast struct {
	message []byte
	said    time.Time // when the member made the message, by the clock of this node
	number  uint64
	sent    int
}

// add queues a message that its member made at the given time.
func (q *queue) add(name string, message []byte, said time.Time) {
	if q.waiting == nil {
		q.waiting = map[string]*broadcast{}
	}
	q.put++
	q.waiting[name] = &broadcast{message: message, said: said, number: q.put}
	if len(q.waiting) > maxQueued {
		delete(q.waiting, slices.MaxFunc(slices.Collect(maps.Keys(q.waiting)), q.compare))
	}
}

// take returns messages that fit into the given room, with their ages. Messages that were sent
// least often come first; among these, the latest comes first. It removes a message that has been
// taken the given number of times.
func (q *queue) take(now time.Time, room, times int) (messages [][]byte) {
	for _, name := range slices.SortedFunc(maps.Keys(q.waiting), q.compare) {
		b := q.waiting[name]
		if len(b.message) > room {
			continue
		}
		room -= len(b.message)
		message := slices.Clone(b.message)
		binary.BigEndian.PutUint32(message[ageAt:], encodeAge(now.Sub(b.said)))
		messages = append(messages, message)
		if b.sent++; b.sent >= times {
			delete(q.waiting, name)
		}
	}
	return messages
}

// compare orders the names of waiting messages by the order in which the messages are sent.
func (q *queue) compare(a, b string) int {
	x, y := q.waiting[a], q.waiting[b]
	return cmp.Or(cmp.Compare(x.sent, y.sent), cmp.Compare(y.number, x.number))
}

// transmissions returns how many times each member sends a message. mult is memberlist's
// RetransmitMult.
func transmissions(mult, members int) int {
	return moreSent * mult * int(math.Ceil(math.Log10(float64(members+1))))
}
