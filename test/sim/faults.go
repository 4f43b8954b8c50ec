// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/bits"
	"strings"
)

// Faults is a set of classes of faults.
type Faults uint64

// The classes of faults. Each run enables some of them.
const (
	Loss           Faults = 1 << iota // up to 30 % of the messages of a link
	Duplication                       // up to 50 %
	Delay                             // heavy-tailed, up to 5 s
	Reordering                        // messages overtake each other
	Clogs                             // nodes hold back all messages and release them in another order
	Breaks                            // connections break and lose the messages in flight
	Cuts                              // single links, in one or both directions; a mute or deaf node
	Partitions                        // two sides, or one isolated node; in one or both directions
	Topologies                        // bridge, ring of majorities, hub
	Flapping                          // links that are cut and healed repeatedly
	Pauses                            // a process is paused
	Suspends                          // a machine is suspended together with its clock
	Crashes                           // at any time
	Interrupts                        // crashes within a step, before or after it is saved
	TornWrites                        // crashes that leave an unreadable store
	LostDisks                         // a process that is down loses its disk
	ClocksBack                        // a run that begins with a lower incarnation
	Operators                         // leave, transfer, drain
	Twins                             // a second process at one address
	OtherSize                         // a process with another Size for a while
	OtherSeeds                        // a process with another list of seeds
	OtherProtocol                     // a process with other versions of the protocol
	Skew                              // clocks with rates 1.0 to 1.111
	OtherTimings                      // a process with another LeaseTimeout for a while
	SlowSaves                         // saves that take up to 2.5 leases
	NewTimings                        // all processes are restarted with other timings
	NewTraits                         // a preference or labels change, in runs with preferences
	TimingSteps                       // processes change to other timings by accepting two sets
	Claimants                         // a process claims a member's address, but listens elsewhere
	Impostors                         // messages of a process with the store of no member
	Obituaries                        // another process announces a crash
	SlowDisks                         // some or all disks are slow for a while
	RestoredCopies                    // a process returns with an earlier copy of its store
	Workers                           // processes without a place in the roster own records

	NoFaults  Faults = 0
	AllFaults        = Workers<<1 - 1

	// Classes that were added later use separate streams, so that older seeds keep their
	// faults.
	laterFaults = SlowSaves | NewTimings
	firstFaults = AllFaults &^ laterFaults &^ NewTraits &^ TimingSteps &^ claimFaults &^
		Obituaries &^ SlowDisks &^ RestoredCopies &^ Workers
	claimFaults = Claimants | Impostors
)

const classes = 34

var faultNames = [classes]string{
	"loss", "duplication", "delay", "reordering", "clogs", "breaks", "cuts", "partitions",
	"topologies", "flapping", "pauses", "suspends", "crashes", "interrupts", "torn writes",
	"lost disks", "clocks back", "operators", "twins", "other size", "other seeds",
	"other protocol", "skew", "other timings", "slow saves",
	"new timings", "new traits", "timing steps", "claimants", "impostors",
	"obituaries", "slow disks", "restored copies", "workers",
}

// index returns the bit number of a single class.
func (f Faults) bitIndex() int { return bits.TrailingZeros64(uint64(f)) }

// String lists the classes.
func (f Faults) String() string {
	var names []string
	for i, name := range faultNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
