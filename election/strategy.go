// SPDX-License-Identifier: Apache-2.0

package election

import "fmt"

// Strategy decides which member leads a group.
type Strategy uint8

// The strategies. Their text forms are "quorum", "lowest", "static" and "standby".
const (
	// Quorum makes the leader of the cluster lead. At most one member leads, and no member leads
	// without a majority. The tokens are those of the leaders of the cluster. Resign and Close hand
	// over the leadership of the cluster, because all groups with Quorum have the same leader. All
	// members of the cluster should open the group: if the leader of the cluster has not opened it,
	// no work of the group runs.
	Quorum Strategy = iota + 1
	// Lowest makes the member with the lowest id lead in each part of a partitioned network, as in the
	// gossip of Fabric. Soon after the network heals, one member leads everywhere. The token of a
	// new term is greater than the tokens of all terms that the new leader knows. In a cluster it is
	// also greater than the token of the new leader's cluster state. But two parts may use the same
	// token at the same time. A context ends only when its member learns of another leader, which may
	// have begun earlier. So the work must tolerate a second leader; the token fences nothing.
	Lowest
	// Static makes this member lead, whatever the others do. Its token is the token of the member's
	// cluster state when it opened the group, and fences nothing. After Resign the member leads again
	// immediately.
	Static
	// Standby means that this member never leads.
	Standby
)

var strategyTexts = [...]string{
	Quorum: "quorum", Lowest: "lowest", Static: "static", Standby: "standby",
}

func (s Strategy) isKnown() bool { return s > 0 && int(s) < len(strategyTexts) }

// String returns the text form of the strategy.
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
	return fmt.Errorf("election: strategy %.32q: want quorum, lowest, static or standby", text)
}
