// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/athena-go/athena/member"
)

// explainNoLeader explains in one line why there is no leader with authority. It returns "" if
// there is a leader with authority.
func (o *Reporter) explainNoLeader(s State, peers map[member.Address]peerStatus) string {
	if !s.Leader.isZero() {
		return ""
	}
	d := diagnosis{State: s, cfg: &o.cfg, quorum: member.Quorum(o.cfg.Size), peers: peers}
	text := d.explainState()
	if mismatch := seedMismatchText(o.peers.otherSeeds()); mismatch != "" {
		text += "; " + mismatch
	}
	if s.RosterLost {
		text = strings.TrimPrefix(o.cfg.RosterLost.Error(), "cluster: ") + ": " + text
	}
	text += o.Disk.explainDelay(o.peers.slowSave)
	switch {
	case s.Preference == member.NeverLeads:
		text += "; this node never leads (preference)"
	case s.Drained:
		text += "; this node is drained and waits two leader timeouts before it proposes itself"
	}
	return text
}

// diagnosis holds the facts on which the explanation of a missing leader depends.
type diagnosis struct {
	State
	cfg    *Config
	quorum int
	peers  map[member.Address]peerStatus
}

func (d diagnosis) explainState() string {
	view := d.View
	switch {
	case view.Role == member.Provisional && d.Held.IsZero():
		return "leads provisionally until " + d.missingFounders(true)
	case view.Role == member.Provisional:
		return "leads provisionally; " + d.missingVoters()
	case view.Role == member.Leading:
		return fmt.Sprintf("leads version %d, but has no lease; %s", view.Version, d.missingVoters())
	case view.Role == member.Following && d.Provisional && d.Held.IsZero():
		return fmt.Sprintf("follows %s, which leads provisionally until %s",
			addressText(view.Leader), d.missingFounders(false))
	case view.Role == member.Following && d.Provisional:
		return fmt.Sprintf("follows %s, which leads provisionally; %s",
			addressText(view.Leader), d.missingVoters())
	case view.Role == member.Following:
		return fmt.Sprintf("follows %s, the leader of version %d, which has not confirmed that "+
			"%d members follow it", addressText(view.Leader), view.Version, d.quorum)
	case !d.Held.IsZero():
		return d.missingVoters()
	}
	return d.missingCluster()
}

// missingCluster explains what a node without a state waits for: a node that leads or has a state.
func (d diagnosis) missingCluster() string {
	asked := d.listPeers(func(peerStatus) bool { return true })
	switch {
	case asked == "":
		return "this node may only join, but no other seed is configured"
	case d.cfg.JoinOnly:
		return "this node may only join and is waiting for a cluster; asked " + asked
	default:
		return "asked " + asked
	}
}

// missingFounders explains what a provisional leader without a state waits for. leads reports
// whether this node is the provisional leader. Only the provisional leader exchanges messages with
// founders.
func (d diagnosis) missingFounders(leads bool) string {
	active, activeSeeds := 0, 0
	var missing []string
	for _, m := range d.View.Members {
		if m.Status == member.Active {
			active++
		}
	}
	for _, a := range d.cfg.Seeds {
		p, known := d.peers[a]
		switch m, _ := d.View.Members.Find(a); {
		case m.Status == member.Active:
			activeSeeds++
		case leads && known:
			missing = append(missing, p.String())
		default:
			missing = append(missing, a.String())
		}
	}
	text := fmt.Sprintf("%d of %d members", d.quorum, d.cfg.Size)
	seeds := member.Quorum(len(d.cfg.Seeds))
	if len(d.cfg.Seeds) < d.cfg.Size {
		text += fmt.Sprintf(", including %d of the %d seeds,", seeds, len(d.cfg.Seeds))
	}
	text += fmt.Sprintf(" are up: %d joined", active)
	switch {
	case active >= d.quorum && activeSeeds >= seeds:
		if holders := d.listPeers(func(p peerStatus) bool { return p.holds }); holders != "" {
			return text + ", but the state of a cluster prevents a new one: " + holders
		}
		text += ", but no leader has been elected yet"
		if voters := d.listPeers(func(p peerStatus) bool { return p.reached }); voters != "" {
			text += ": " + voters
		}
		return text
	case len(missing) == 0:
		return text
	}
	return text + "; waiting for " + joinNames(missing)
}

// missingVoters lists the voters that a node with a state has reached, and the missing voters. A
// majority of the voters must agree on a leader.
func (d diagnosis) missingVoters() string {
	roster, self := d.Held.Roster, d.View.Self
	reached := 0
	var present, missing, others []string
	for _, m := range roster {
		p := d.peers[m.Address]
		switch {
		case !m.IsVoter():
		case m.Address == self.Address && m.StoreID == self.StoreID:
			reached++
			present = append(present, "this node")
		case m.Address == self.Address:
			missing = append(missing, "this node (it lost its store)")
		case p.reached && p.store != m.StoreID:
			missing = append(missing, addressText(m.Address)+" (it lost its store)")
		case p.reached:
			reached++
			present = append(present, p.String())
		default:
			missing = append(missing, p.String())
		}
	}
	for _, a := range d.cfg.Seeds {
		if _, known := roster.Find(a); !known && a != self.Address {
			others = append(others, d.peers[a].String())
		}
	}
	text := fmt.Sprintf("needs %d of the %d voters of version %s; reached %d",
		d.quorum, roster.Voters(), d.Held.Number, reached)
	for _, part := range []struct {
		before string
		names  []string
	}{{": ", present}, {"; missing: ", missing}, {"; other seeds: ", others}} {
		if len(part.names) > 0 {
			text += part.before + joinNames(part.names)
		}
	}
	return text
}

// listPeers describes the matching peers, sorted by address.
func (d diagnosis) listPeers(match func(peerStatus) bool) string {
	var list []peerStatus
	for _, p := range d.peers {
		if match(p) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b peerStatus) int { return a.address.Compare(b.address) })
	var texts []string
	for _, p := range list {
		texts = append(texts, p.String())
	}
	return joinNames(texts)
}

// maxNames bounds the number of names in one line.
const maxNames = 8

func joinNames(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		names = append(slices.Clone(names[:maxNames]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
