// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
)

// complaint is a node without a leader that says so, and why: soon, since somebody
// may be waiting beside it, and then less and less often. It is of the loop alone.
type complaint struct {
	since  time.Time // when the node had no leader any more; zero while it has one
	at     time.Time // of the last line; zero before the first
	next   time.Time // when to look whether there is something to say
	repeat time.Duration
	text   string // of the last line
}

const (
	// The first line comes after so many retry intervals, and not sooner than
	// leastPatience: a cluster that only starts, or replaces its leader, is faster.
	complainRetries = 3
	leastPatience   = 3 * time.Second
	// Another reason is told when it is found, and looked for so often.
	complainChange = 5 * time.Second
	// The same reason is told again after leastRepeat, then after twice as long
	// each time, up to mostRepeat.
	leastRepeat = 10 * time.Second
	mostRepeat  = time.Minute
)

// complain logs why there is no leader, when it is time to, and when there is one
// again, unless a change of leader ended just now and says so. The loop comes by at
// least at every attempt to join, keep-alive or question to the voters.
func (n *Node) complain(now time.Time, elected bool) {
	c, seen := &n.complaint, n.look()
	if t := seen.live(); t != nil {
		if !c.at.IsZero() && !elected {
			n.log.Info("there is a leader with authority",
				slog.String("leader", shown(t.leader.Address)), slog.Uint64("version", t.token),
				slog.Float64("leaderless_ms", milliseconds(now.Sub(c.since))))
		}
		*c = complaint{}
		return
	}
	if c.since.IsZero() {
		*c = complaint{
			since:  now,
			next:   now.Add(max(complainRetries*n.cfg.RetryInterval, leastPatience)),
			repeat: leastRepeat,
		}
	}
	if now.Before(c.next) {
		return
	}
	c.next = now.Add(complainChange)
	text := n.noLeader(*seen)
	switch {
	case text != c.text:
		c.repeat = leastRepeat
	case now.Sub(c.at) < c.repeat:
		return
	default:
		c.repeat = min(2*c.repeat, mostRepeat)
	}
	c.at, c.text = now, text
	l := line{slog.LevelWarn, "no leader with authority"}
	if seen.view.Role == member.Seeking && seen.held.IsZero() {
		l = line{slog.LevelWarn, "not in a cluster yet"} // which may have a leader
	}
	n.log.LogAttrs(context.Background(), l.level, l.text,
		slog.Float64("leaderless_ms", milliseconds(now.Sub(c.since))), slog.String("why", text))
}

// noLeader says in one line for people why there is no leader with authority;
// empty while there is one.
func (n *Node) noLeader(seen sight) string {
	if seen.live() != nil {
		return ""
	}
	w := want{
		cfg:    n.cfg,
		quorum: member.Quorum(n.cfg.Size),
		sight:  seen,
		told:   n.lastHeard(seen.held),
	}
	text := w.text()
	if odd := haveOtherSeeds(n.heard.otherSeeds()); odd != "" {
		text += "; " + odd
	}
	if n.meter.rosterLost.Load() {
		text = strings.TrimPrefix(ErrRosterLost.Error(), "cluster: ") + ": " + text
	}
	if n.meter.drained.Load() {
		text += "; this node is drained, and stands only when no other has led for two leader timeouts"
	}
	return text
}

// lastHeard is the last word of each seed and member. It does not count as reached if no
// message came from it for two retry intervals and a heartbeat timeout.
func (n *Node) lastHeard(held member.State) map[member.Address]told {
	return n.heard.tell(held, 2*n.cfg.RetryInterval+n.cfg.HeartbeatTimeout)
}

// want is what a node without a leader wants to have.
type want struct {
	sight
	cfg    settings
	quorum int
	told   map[member.Address]told
}

func (w want) text() string {
	view := w.view
	switch {
	case view.Role == member.Provisional && w.held.IsZero():
		return "leads provisionally until " + w.founders(true)
	case view.Role == member.Provisional:
		return "leads provisionally; " + w.voters()
	case view.Role == member.Leading:
		return fmt.Sprintf("leads version %d, but has no lease; %s", view.Version, w.voters())
	case view.Role == member.Following && w.provisional && w.held.IsZero():
		return fmt.Sprintf("follows %s, which leads provisionally until %s",
			shown(view.Leader), w.founders(false))
	case view.Role == member.Following && w.provisional:
		return fmt.Sprintf("follows %s, which leads provisionally; %s", shown(view.Leader), w.voters())
	case view.Role == member.Following:
		return fmt.Sprintf("follows %s, the leader of version %d, "+
			"which does not say that %d members follow it", shown(view.Leader), view.Version, w.quorum)
	case !w.held.IsZero():
		return w.voters()
	}
	return w.strangers()
}

// strangers is for a node that holds nothing: it waits for somebody who does, or
// who leads.
func (w want) strangers() string {
	asked := w.list(func(told) bool { return true })
	switch {
	case asked == "":
		return "this node joins only, and is the only seed: there is nobody to ask"
	case w.cfg.JoinOnly:
		return "this node joins only, and waits for a cluster; asked " + asked
	default:
		return "asked " + asked
	}
}

// founders is what a provisional leader that holds nothing waits for. Only the
// leader itself talks with them.
func (w want) founders(leads bool) string {
	active, activeSeeds := 0, 0
	var missing []string
	for _, m := range w.view.Members {
		if m.Status == member.Active {
			active++
		}
	}
	for _, a := range w.cfg.seeds {
		t, known := w.told[a]
		switch m, _ := w.view.Members.Find(a); {
		case m.Status == member.Active:
			activeSeeds++
		case leads && known:
			missing = append(missing, t.String())
		default:
			missing = append(missing, a.String())
		}
	}
	text := fmt.Sprintf("%d of %d members", w.quorum, w.cfg.Size)
	seeds := member.Quorum(len(w.cfg.seeds))
	if len(w.cfg.seeds) < w.cfg.Size {
		text += fmt.Sprintf(", %d of the %d seeds among them,", seeds, len(w.cfg.seeds))
	}
	text += fmt.Sprintf(" are there: %d joined", active)
	switch {
	case active >= w.quorum && activeSeeds >= seeds:
		text += ", and no leader is chosen yet"
		if voters := w.list(func(t told) bool { return t.reached }); voters != "" {
			text += ": " + voters
		}
		return text
	case len(missing) == 0:
		return text
	}
	return text + "; waits for " + some(missing)
}

// voters is for a node that holds members of a cluster, of whom so many must
// agree on a leader.
func (w want) voters() string {
	roster := w.held.Roster
	reached := 0
	var here, missing, others []string
	for _, m := range roster {
		t := w.told[m.Address]
		switch {
		case !m.IsVoter():
		case m.Address == w.view.Self.Address && m.StoreID == w.view.Self.StoreID:
			reached++
			here = append(here, "this node")
		case m.Address == w.view.Self.Address:
			missing = append(missing, "the lost store of this node")
		case t.reached:
			reached++
			here = append(here, t.String())
		default:
			missing = append(missing, t.String())
		}
	}
	for _, a := range w.cfg.seeds {
		if _, known := roster.Find(a); !known && a != w.view.Self.Address {
			others = append(others, w.told[a].String())
		}
	}
	text := fmt.Sprintf("needs %d of the %d voters of version %s; reached %d",
		w.quorum, roster.Voters(), w.held.Number, reached)
	for _, part := range []struct {
		before string
		names  []string
	}{{": ", here}, {"; missing: ", missing}, {"; other seeds: ", others}} {
		if len(part.names) > 0 {
			text += part.before + some(part.names)
		}
	}
	return text
}

// list names those of whom is holds, in the order of their addresses.
func (w want) list(is func(told) bool) string {
	var names []told
	for _, t := range w.told {
		if is(t) {
			names = append(names, t)
		}
	}
	slices.SortFunc(names, func(a, b told) int { return a.addr.Compare(b.addr) })
	var texts []string
	for _, t := range names {
		texts = append(texts, t.String())
	}
	return some(texts)
}

// maxNamed bounds the nodes that one line names.
const maxNamed = 8

func some(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		names = append(slices.Clone(names[:maxNamed]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
