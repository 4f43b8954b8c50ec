// SPDX-License-Identifier: Apache-2.0

package election

import "fmt"

// Strategy says who leads a group.
type Strategy uint8

// The strategies. As text, in a configuration, they are "quorum", "gossip",
// "static-leader" and "standby".
const (
	// Quorum: the leader of the cluster. Never two at once, nobody without a majority.
	// The token is that of leader.Term. To give up is to hand the cluster over, so
	// all groups by Quorum have the same leader. All members of the cluster should
	// open the group: one that has not leads it in name when it leads the cluster.
	Quorum Strategy = iota + 1
	// Lowest: one in each part of the network, and one again soon after it is whole;
	// see package lowest. The token is the term. It grows from leader to leader while
	// their members hear each other; two parts may use the same, and a member that is
	// started while it is alone begins anew: so it fences nothing.
	Lowest
	// Static: this member, whoever else does. It has no token.
	Static
	// Standby: not this member.
	Standby
)

var strategyTexts = [...]string{
	Quorum: "quorum", Lowest: "gossip", Static: "static-leader", Standby: "standby",
}

func (s Strategy) isKnown() bool { return s > 0 && int(s) < len(strategyTexts) }

// String is the text of the strategy.
func (s Strategy) String() string {
	if !s.isKnown() {
		return fmt.Sprintf("Strategy(%d)", uint8(s))
	}
	return strategyTexts[s]
}

// MarshalText implements encoding.TextMarshaler.
func (s Strategy) MarshalText() ([]byte, error) {
	if !s.isKnown() {
		return nil, fmt.Errorf("election: strategy %d is none", uint8(s))
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Strategy) UnmarshalText(text []byte) error {
	for i, name := range strategyTexts {
		if i > 0 && name == string(text) {
			*s = Strategy(i)
			return nil
		}
	}
	return fmt.Errorf("election: strategy %.32q: want quorum, gossip, static-leader or standby", text)
}
