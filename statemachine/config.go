// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"math/rand/v2"

	"github.com/athena-go/athena/member"
)

// Config is what a Machine must know beyond what its store remembers. The
// caller has validated it.
type Config struct {
	Address member.Address
	Name    string
	// Seeds is the list of seeds, sorted, the same on every node. The node is
	// a seed when its address is among them.
	Seeds   []member.Address
	Size    int // N, 1 to member.MaxMembers
	Timings Timings
	// JoinOnly keeps a seed that lost its disk from founding and from voting
	// in a founding (protocol.md section 4).
	JoinOnly bool
	// Volatile says that the store forgets everything at the end of the
	// process (protocol.md section 5, restart).
	Volatile bool
	// TrustRefusal ends support as soon as the host of its leader refuses the port
	// (protocol.md section 6, a process that died).
	TrustRefusal bool
	// Rand gives jitter and identifiers; each machine has its own.
	Rand *rand.Rand
}
