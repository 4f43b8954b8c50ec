// SPDX-License-Identifier: Apache-2.0

package mesh

import "github.com/athena-go/athena/member"

// Ends contains what both nodes know about a connection between them. Each node uses it to choose
// between two connections, and both make the same choice.
type Ends struct {
	Dialer member.Address
	// ID is a random number that the dialer has chosen for the connection, or 0 for a probe, which is
	// never adopted.
	ID uint64
	// Lost is the ID of the last connection that the peer dialed to this dialer. The dialer has lost
	// it. Lost is 0 if the peer has dialed none, and ID if the dialer is an Announcer.
	Lost uint64
}

// announcesEnd reports whether the dialer only announces that its process has ended.
func (e Ends) announcesEnd() bool { return e.Lost == e.ID }

// Verdict is the choice between two connections of the same pair of nodes.
type Verdict uint8

// The verdicts.
const (
	// Refuse the next connection: it is from an earlier run of the peer, or its dialer gave it up
	// before it was accepted.
	Refuse Verdict = iota
	// Replace the current connection immediately: it belongs to an earlier run, or its dialer lost it.
	Replace
	// Switch to the next connection. The two connections crossed, and the current one is drained.
	Switch
	// Keep the current connection. The two connections crossed, and the next one is drained.
	Keep
)

var verdictNames = [...]string{"refuse", "replace", "switch", "keep"}

// String returns the name of the verdict.
func (v Verdict) String() string { return verdictNames[v] }

// Resolve decides between the current connection of a node to a peer and the next connection, on
// which greetings have just been exchanged. haveRun and nextRun are the incarnations in the peer's
// greetings. If two connections crossed, the connection whose dialer has the smaller address is
// kept (protocol.md section 8). The order of the arguments matters only if both have the same
// dialer. Then the next connection replaces the current one, because a node dials again only after
// it has lost its earlier connection.
func Resolve(have, next Ends, haveRun, nextRun uint64) Verdict {
	switch {
	case nextRun < haveRun:
		return Refuse
	case nextRun > haveRun, next.Dialer == have.Dialer, next.Lost == have.ID:
		return Replace
	case have.Lost == next.ID:
		return Refuse
	case next.Dialer.Compare(have.Dialer) < 0:
		return Switch
	default:
		return Keep
	}
}
