// SPDX-License-Identifier: Apache-2.0

package election

import "fmt"

// Strategy says who leads a group.
type Strategy uint8

// The strategies. As text, in a configuration, they are "quorum", "gossip",
// "static-leader" and "standby".
const (
	// Quorum: the member that leads the cluster. At most one leads, and none without a
	// majority. The tokens are those of the cluster's leaders. To resign is to hand the
	// cluster over, so all groups by Quorum have one leader. All members of the cluster
	// should open the group: a member that has not leads it in name while it leads the
	// cluster. Close hands the cluster over too.
	Quorum Strategy = iota + 1
	// Lowest: the member with the lowest id in each part of the network, and one again
	// soon after it is whole, as in Fabric's gossip. A new term has a greater token than
	// each term that its member heard of, and in a cluster than the state that its member
	// holds. Two parts may use one token at the same time, so it fences nothing between
	// them; and the context of work ends when its member hears of another leader, which
	// may be after that one began. Work must tolerate a second leader.
	Lowest
	// Static: this member, whatever the others do. Its token is that of the state which
	// the member holds when it opens the group: it fences nothing. A member that resigns
	// leads again at once.
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
		return nil, fmt.Errorf("election: unknown strategy %d", uint8(s))
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
