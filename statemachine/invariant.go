// SPDX-License-Identifier: Apache-2.0

package statemachine

import (
	"fmt"

	"github.com/athena-go/athena/member"
)

// Check reports the first of the machine's own invariants that does not hold.
// Tests and the simulator call it after every step; those that need more than
// one node to be seen are checked from outside.
func (m *Machine) Check() error {
	d := m.durable
	switch {
	case m.stopped:
		return nil
	case d.Accepted.ID.Compare(d.Promised) > 0:
		return fmt.Errorf("accepted %v is above the promise %v", d.Accepted.ID, d.Promised)
	case !d.Accepted.IsZero() && d.Accepted.ID.Version <= d.Held.Version:
		return fmt.Errorf("accepted %v is kept although %v is held", d.Accepted.ID, d.Held.Number)
	case !d.Held.Roster.IsSorted():
		return fmt.Errorf("roster of %v is not sorted", d.Held.Number)
	case len(d.Held.Roster) > m.cfg.Size:
		return fmt.Errorf("roster of %v has %d entries, Size is %d",
			d.Held.Number, len(d.Held.Roster), m.cfg.Size)
	case m.digest != d.Held.Digest():
		return fmt.Errorf("digest of %v is stale", d.Held.Number)
	case len(m.lead.waiting) > m.cfg.Size || len(m.join.askers) > 2*m.cfg.Size:
		return fmt.Errorf("%d wait and %d asked: a list grew past its limit",
			len(m.lead.waiting), len(m.join.askers))
	}
	return m.checkRole()
}

func (m *Machine) checkRole() error {
	own := m.leader.Leader == m.self.Address
	switch m.role {
	case member.Seeking:
		if !m.leader.IsZero() {
			return fmt.Errorf("seeks and follows %v", m.leader)
		}
	case member.Following:
		if m.leader.IsZero() || own {
			return fmt.Errorf("follows %v", m.leader)
		}
		if m.leader.Chosen && m.leader.Version < m.held().Version {
			return fmt.Errorf("follows %v and holds %v", m.leader, m.held())
		}
	case member.Provisional:
		if !own || m.leader.Chosen {
			return fmt.Errorf("is provisional under %v", m.leader)
		}
	case member.Leading:
		s := m.durable.Held
		if !own || m.leader != s.Claim() || s.LeaderIdentity() != m.self {
			return fmt.Errorf("leads under %v and holds %v of %v", m.leader, s.Number, s.LeaderIdentity())
		}
	}
	return nil
}
