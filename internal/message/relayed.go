// SPDX-License-Identifier: Apache-2.0

package message

// Relayed carries a message of a worker to the leader, or the leader's answer back, through a
// member. The message is a LeaderKeepAlive, a RecordRequest or an answer to one.
type Relayed struct{ Message Message }

// IsRelayed reports whether messages of a kind may be relayed.
func (k Kind) IsRelayed() bool {
	return k == KindLeaderKeepAlive || k == KindLeaderKeepAliveAck || k == KindRecordRequest ||
		k == KindRecordResponse
}

// Kind implements Body.
func (Relayed) Kind() Kind { return KindRelayed }
