// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/test/sim"
)

// This file defines the language of the scenarios. A form is a line with its variable parts in
// capitals.

// A verb is one kind of line.
type verb struct {
	form    string
	setsUp  bool // must precede the first start of a process
	meets   bool // is about connections
	do      func(*player, step) error
	pattern *regexp.Regexp
}

// A conditionWord is a condition that may replace COND in a form.
type conditionWord struct {
	form    string
	holds   func(*player, words) bool
	pattern *regexp.Regexp
}

const clusterForm = "cluster of NUMBER, seeds NODES"

// words are the values of the places of a line, in order.
type words struct {
	text  []string
	holds func(*player) bool // the condition for COND
}

func (w words) nodes(i int) (out []int) {
	for _, name := range strings.Fields(w.text[i]) {
		n, _ := strconv.Atoi(name[1:]) // the pattern only allows numbers
		out = append(out, n-1)
	}
	return out
}

func (w words) node(i int) int { return w.nodes(i)[0] }

func (w words) number(i int) int {
	n, _ := strconv.Atoi(w.text[i])
	return n
}

func (w words) duration(i int) time.Duration {
	number, unit, _ := strings.Cut(w.text[i], " ")
	n, _ := strconv.ParseFloat(number, 64)
	if _, ok := units[unit]; !ok {
		unit = strings.TrimSuffix(unit, "s")
	}
	return time.Duration(n * float64(units[unit]))
}

// greatest returns the greatest process number in the line.
func (w words) greatest() (n int) {
	for i, text := range w.text {
		if nodesOnly.MatchString(text) {
			n = max(n, slices.Max(w.nodes(i))+1)
		}
	}
	return n
}

var nodesOnly = regexp.MustCompile(`^` + nodesPattern + `$`)

var units = map[string]time.Duration{
	"ms":                time.Millisecond,
	"second":            time.Second,
	"minute":            time.Minute,
	"interval":          lan().HeartbeatInterval,
	"heartbeat timeout": lan().HeartbeatTimeout,
	"leader timeout":    lan().LeaderTimeout,
	"TTL":               lan().TTLTimeout,
	"retry interval":    lan().RetryInterval,
	"round trip":        roundTrip,
}

var roles = map[string]member.Role{
	"seeking": member.Seeking, "following": member.Following,
	"provisional": member.Provisional, "leading in name": member.Leading,
}

const nodesPattern = `n[1-9][0-9]?(?: n[1-9][0-9]?)*`

// placeWords lists the words that a place accepts.
var placeWords = sync.OnceValue(func() map[string][]string {
	var kinds, reasons, statuses, decided []string
	for k := message.KindGreet; k < message.Kinds; k++ {
		kinds = append(kinds, k.String())
	}
	for r := message.ReasonNone + 1; r < message.Reasons; r++ {
		reasons = append(reasons, r.String())
	}
	for s := member.Joining; s <= member.Removed; s++ {
		statuses = append(statuses, s.String())
	}
	for w := statemachine.Discovering; w < statemachine.TraceKinds; w++ {
		if w != statemachine.MemberMoved {
			decided = append(decided, w.String())
		}
	}
	return map[string][]string{
		"KIND": kinds, "REASON": reasons, "STATUS": statuses, "DECISION": decided,
		"ROLE": append([]string{"up", "down"}, slices.Sorted(maps.Keys(roles))...),
	}
})

// places maps the places, in capitals, to patterns.
var places = sync.OnceValue(func() map[string]string {
	unit := slices.Collect(maps.Keys(units))
	all := map[string]string{
		"NODES":    `(` + nodesPattern + `)`,
		"NODE":     `(n[1-9][0-9]?)`,
		"NUMBER":   `([0-9]+)`,
		"DURATION": `([0-9]+(?:\.[0-9]+)? (?:` + strings.Join(unit, `|`) + `)s?)`,
		"COND":     `(.+)`,
	}
	for place, words := range placeWords() {
		all[place] = `(` + strings.Join(words, `|`) + `)`
	}
	return all
})

var placeWord = regexp.MustCompile(`\b[A-Z]{4,}\b`)

func compile(form string) *regexp.Regexp {
	table := places()
	return regexp.MustCompile(`^` + placeWord.ReplaceAllStringFunc(form, func(word string) string {
		return table[word]
	}) + `$`)
}

var verbs = sync.OnceValue(func() []verb {
	all := slices.Concat(setUpVerbs(), processVerbs(), networkVerbs(), timeVerbs(), meetingVerbs())
	for i := range all {
		all[i].pattern = compile(all[i].form)
	}
	return all
})

func verbForms() (out []string) {
	for _, v := range verbs() {
		out = append(out, v.form)
	}
	return out
}

func setUpVerbs() []verb {
	return []verb{
		{form: clusterForm, setsUp: true, do: func(p *player, s step) error {
			p.setup.Size, p.setup.Seeds = s.number(0), s.nodes(1)
			p.setup.Processes = p.setup.Size
			if n := p.setup.Size; n < 1 || n > sim.MaxSize || s.greatest() > n {
				return fmt.Errorf("want 1 to %d members, all seeds among them", sim.MaxSize)
			}
			return nil
		}},
		{form: "spare NODES", setsUp: true, do: func(p *player, s step) error {
			p.setup.Processes += len(s.nodes(0))
			return s.last(p.setup.Processes)
		}},
		{form: "twin NODE of NODE", setsUp: true, do: func(p *player, s step) error {
			p.setup.Twins = append(p.setup.Twins, s.node(1))
			return s.last(p.setup.Processes + len(p.setup.Twins))
		}},
		{form: "claimant NODE of NODE", setsUp: true, do: func(p *player, s step) error {
			p.setup.Claimants = append(p.setup.Claimants, s.node(1))
			return s.last(p.setup.Processes + len(p.setup.Twins) + len(p.setup.Claimants))
		}},
		{form: "memory stores NODES", setsUp: true, do: func(p *player, s step) error {
			p.setup.Volatile = s.nodes(0)
			return nil
		}},
		{form: "refused ports are trusted", setsUp: true, do: func(p *player, _ step) error {
			p.setup.TrustRefusal = true
			return nil
		}},
		{form: "hosts of NODES refuse all ports", setsUp: true, do: func(p *player, s step) error {
			p.setup.Rejects = s.nodes(0)
			return nil
		}},
		{form: "preference of NODES is NUMBER", setsUp: true, do: func(p *player, s step) error {
			p.preferNodes(s.nodes(0), member.Preference(s.number(1)))
			return nil
		}},
		{form: "witnesses NODES", setsUp: true, do: func(p *player, s step) error {
			p.preferNodes(s.nodes(0), member.NeverLeads)
			return nil
		}},
		{form: "leaders hand over to preferred members after DURATION", setsUp: true,
			do: func(p *player, s step) error {
				p.setup.HandOver = s.duration(0)
				return nil
			}},
		{form: "fast clocks NODES", setsUp: true, do: func(p *player, s step) error {
			p.fast = s.nodes(0)
			return nil
		}},
	}
}

// preferNodes configures the preference of processes.
func (p *player) preferNodes(nodes []int, n member.Preference) {
	if p.setup.Preferences == nil {
		p.setup.Preferences = make([]member.Preference, sim.MaxProcesses)
	}
	for _, i := range nodes {
		p.setup.Preferences[i] = n
	}
}

// last checks that the processes that a line adds have the next free numbers.
func (s step) last(want int) error {
	if nodes := s.nodes(0); slices.Max(nodes)+1 != want {
		return fmt.Errorf("the last one must be n%d", want)
	}
	return nil
}

// each calls the function do for every process of the line.
func each(do func(p *player, i int) error) func(*player, step) error {
	return func(p *player, s step) error {
		p.cluster()
		for _, i := range s.nodes(0) {
			if err := do(p, i); err != nil {
				return err
			}
		}
		return nil
	}
}

func simple(do func(c *sim.Cluster, i int)) func(*player, step) error {
	return each(func(p *player, i int) error {
		do(p.c, i)
		return nil
	})
}

func processVerbs() []verb {
	start := func(m func(step) sim.Misfit) func(*player, step) error {
		return func(p *player, s step) error {
			for _, i := range s.nodes(0) {
				p.cluster().Misconfigure(i, m(s))
				p.c.Start(i)
			}
			return nil
		}
	}
	dies := func(d func(step) death) func(*player, step) error {
		return func(p *player, s step) error {
			death := d(s)
			p.dying[s.node(0)+1] = &death
			return nil
		}
	}
	return []verb{
		{form: "start NODES", do: start(func(step) sim.Misfit { return sim.Misfit{} })},
		{form: "start NODE with size NUMBER", do: start(func(s step) sim.Misfit {
			return sim.Misfit{Size: s.number(1)}
		})},
		{form: "start NODE with seeds NODES", do: start(func(s step) sim.Misfit {
			return sim.Misfit{Seeds: s.nodes(1)}
		})},
		{form: "start NODE with lease timeout DURATION", do: start(func(s step) sim.Misfit {
			return sim.Misfit{Lease: s.duration(1)}
		})},
		{form: "start NODE with protocol NUMBER to NUMBER", do: start(func(s step) sim.Misfit {
			return sim.Misfit{Protocol: [2]uint16{uint16(s.number(1)), uint16(s.number(2))}}
		})},
		{form: "crash NODES", do: simple((*sim.Cluster).Crash)},
		{form: "restart NODES", do: simple((*sim.Cluster).Restart)},
		{form: "lose the disk of NODES", do: simple((*sim.Cluster).LoseDisk)},
		{form: "wall clock of NODE goes back", do: simple((*sim.Cluster).SetBack)},
		{form: "wall clock of NODE is set forward", do: simple((*sim.Cluster).SetForward)},
		{form: "pause NODES", do: simple((*sim.Cluster).Pause)},
		{form: "suspend NODES", do: simple((*sim.Cluster).Suspend)},
		{form: "resume NODES, timers first", do: simple(func(c *sim.Cluster, i int) {
			c.Resume(i, true)
		})},
		{form: "resume NODES, messages first", do: simple(func(c *sim.Cluster, i int) {
			c.Resume(i, false)
		})},
		{form: "leave NODES", do: simple((*sim.Cluster).Leave)},
		{form: "drain NODES", do: simple((*sim.Cluster).Drain)},
		{form: "NODES become witnesses", do: simple(func(c *sim.Cluster, i int) {
			c.Prefer(i, member.NeverLeads)
		})},
		{form: "NODES get the default preference", do: simple(func(c *sim.Cluster, i int) {
			c.Prefer(i, 0)
		})},
		{form: "hand over from NODE to NODE", do: func(p *player, s step) error {
			return p.c.Transfer(s.node(0), s.node(1))
		}},
		{form: "NODE dies before save NUMBER", do: dies(func(s step) death {
			return death{saves: s.number(1), sent: -1}
		})},
		{form: "NODE dies after save NUMBER, with NUMBER messages sent", do: dies(func(s step) death {
			return death{saves: s.number(1), sent: s.number(2)}
		})},
		{form: "NODE dies in save NUMBER and tears its disk", do: dies(func(s step) death {
			return death{saves: s.number(1), sent: -1, tears: true}
		})},
	}
}

// pairs calls a function for each pair of a process from the first list and one from the second.
func pairs(do func(p *player, s step, a, b int)) func(*player, step) error {
	return func(p *player, s step) error {
		p.cluster()
		for _, a := range s.nodes(0) {
			for _, b := range s.nodes(1) {
				if a == b {
					return fmt.Errorf("n%d stands on both sides", a+1)
				}
				do(p, s, a, b)
			}
		}
		return nil
	}
}

func networkVerbs() []verb {
	weather := func(change func(*sim.Link, step)) func(*player, step) error {
		return func(p *player, s step) error {
			change(&p.link, s)
			p.cluster().Weather(p.link)
			return nil
		}
	}
	percent := func(s step) float64 { return float64(s.number(0)) / 100 }
	return []verb{
		{form: "cut NODES from NODES", do: pairs(func(p *player, _ step, a, b int) { p.c.Cut(a, b) })},
		{form: "cut what NODES send to NODES", do: pairs(func(p *player, _ step, a, b int) {
			p.c.CutOneWay(a, b)
		})},
		{form: "isolate NODES", do: simple((*sim.Cluster).Isolate)},
		{form: "split NODES from the others", do: func(p *player, s step) error {
			p.cluster().Split(s.nodes(0)...)
			return nil
		}},
		{form: "mend NODES and NODES", do: pairs(func(p *player, _ step, a, b int) { p.c.Mend(a, b) })},
		{form: "heal", do: func(p *player, _ step) error {
			p.cluster().Heal()
			p.link, p.lost = p.setup.Link, nil
			return nil
		}},
		{form: "flap NODES and NODES every DURATION for DURATION", do: flap},
		{form: "break NODES and NODES", do: pairs(func(p *player, _ step, a, b int) { p.c.Break(a, b) })},
		{form: "hold what NODES send to NODES for DURATION", do: pairs(func(p *player, s step, a, b int) {
			p.c.Hold(a, b, s.duration(2))
		})},
		{form: "lose what NODES send to NODES: KIND", do: pairs(func(p *player, s step, a, b int) {
			p.lost = append(p.lost, losing{a + 1, b + 1, s.text[2]})
		})},
		{form: "network loses NUMBER percent", do: weather(func(l *sim.Link, s step) {
			l.Loss = percent(s)
		})},
		{form: "network doubles NUMBER percent", do: weather(func(l *sim.Link, s step) {
			l.Duplicate = percent(s)
		})},
		{form: "network delays NUMBER percent by up to DURATION", do: weather(func(l *sim.Link, s step) {
			l.Late, l.MaxLate = percent(s), s.duration(1)
		})},
		{form: "network reorders", do: weather(func(l *sim.Link, _ step) { l.Unordered = true })},
	}
}

// flap cuts and mends links alternately, each for half a period, until the time is over.
func flap(p *player, s step) error {
	period, end := s.duration(2), p.cluster().Now()+s.duration(3)
	for p.c.Now() < end {
		for _, turn := range []func(a, b int){p.c.Cut, p.c.Mend} {
			for _, a := range s.nodes(0) {
				for _, b := range s.nodes(1) {
					turn(a, b)
				}
			}
			p.pass(period/2, nobodyAsks)
		}
	}
	return nil
}

func nobodyAsks(*player) bool { return false }

// waitsAtMost bounds "wait until". It is longer than any bound of protocol.md.
const waitsAtMost = 60 * time.Second

func timeVerbs() []verb {
	until := func(limit func(step) time.Duration) func(*player, step) error {
		return func(p *player, s step) error {
			if !p.pass(limit(s), s.holds) {
				return fmt.Errorf("it did not happen within %v", limit(s))
			}
			return nil
		}
	}
	first := func(s step) time.Duration { return s.duration(0) }
	expect := func(want bool) func(*player, step) error {
		return func(p *player, s step) error {
			if got := s.holds(p); got != want {
				return errors.New("it does not hold")
			}
			return nil
		}
	}
	return []verb{
		{form: "run for DURATION", do: func(p *player, s step) error {
			p.pass(first(s), nobodyAsks)
			return nil
		}},
		{form: "wait until COND", do: until(func(step) time.Duration { return waitsAtMost })},
		{form: "within DURATION: COND", do: until(first)},
		{form: "after DURATION: COND", do: func(p *player, s step) error {
			p.pass(first(s), nobodyAsks)
			return expect(true)(p, s)
		}},
		{form: "expect not: COND", do: expect(false)},
		{form: "expect COND", do: expect(true)},
		{form: "never: COND", do: func(p *player, s step) error {
			p.never = append(p.never, s)
			p.watch()
			return nil
		}},
		{form: "from here on", do: func(p *player, _ step) error {
			p.never, p.count, p.moves, p.led = nil, map[happening]int{}, 0, 0
			return nil
		}},
	}
}

// meetingVerbs are the verbs for two members and the connections between them.
func meetingVerbs() []verb {
	arrives := func(active bool) func(*player, step) error {
		return func(p *player, s step) error {
			if p.meets == nil || s.node(0) > 1 {
				return errors.New("n1 and n2 must dial each other first")
			}
			if !p.meets.open(greet{1 - s.node(0), active}) {
				return errors.New("no such greet is on its way")
			}
			return nil
		}
	}
	return []verb{
		{form: "n1 and n2 dial each other", meets: true, do: func(p *player, _ step) (err error) {
			p.meets, err = newHandshake()
			return err
		}},
		{form: "active greet of NODE arrives", meets: true, do: arrives(true)},
		{form: "passive greet of NODE arrives", meets: true, do: arrives(false)},
	}
}
