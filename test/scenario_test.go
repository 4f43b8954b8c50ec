// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/test/sim"
)

// This file plays the stories of testdata/scenario with the real core. scenario_words_test.go
// defines the lines; test/scenarios.md describes both.

const (
	scenarioFolder = "testdata/scenario"
	// scenarioSeeds is the number of seeds for each story, so that no story passes by luck.
	scenarioSeeds = 3
)

func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, name := range scenarioFiles(t) {
		t.Run(strings.TrimSuffix(name, ".txt"), func(t *testing.T) {
			tales, err := readScenario(name, scenarioText(t, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, tale := range tales {
				t.Run(tale.name, func(t *testing.T) {
					for seed := range uint64(scenarioSeeds) {
						if err := playInBubble(t, tale, seed+1); err != nil {
							t.Fatalf("with seed %d: %s/%v", seed+1, scenarioFolder, err)
						}
					}
				})
			}
		})
	}
}

func scenarioFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(scenarioFolder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A tale is one variant of a scenario: its text with a value for each placeholder.
type tale struct {
	file, name string
	steps      []step
}

// A step is one parsed line.
type step struct {
	words
	line      int
	said      string
	verb      *verb
	condition string // form of its condition
}

func (s step) errorf(file, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s: %w", file, s.line, s.said, fmt.Errorf(format, args...))
}

var forEach = regexp.MustCompile(`^for each ([A-Z]+) of (.+)$`)

// readScenario parses a file and returns a tale for each combination of values.
func readScenario(file, text string) ([]tale, error) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		m := forEach.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		lines[i] = "" // the placeholder is replaced from here on
		word := regexp.MustCompile(`\b` + m[1] + `\b`)
		var all []tale
		for _, value := range strings.Split(m[2], " | ") {
			tales, err := readScenario(file, word.ReplaceAllString(strings.Join(lines, "\n"), value))
			if err != nil {
				return nil, err
			}
			for _, t := range tales {
				t.name = strings.TrimSuffix(value+", "+t.name, ", ")
				all = append(all, t)
			}
		}
		return all, nil
	}
	t := tale{file: file}
	for i, line := range lines {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) == "" {
			continue
		}
		s, err := readStep(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		s.line = i + 1
		t.steps = append(t.steps, s)
	}
	if len(t.steps) == 0 {
		return nil, fmt.Errorf("%s: nothing happens: want lines below the comments, the first: %s",
			file, clusterForm)
	}
	return []tale{t}, nil
}

func readStep(line string) (step, error) {
	for _, v := range verbs() {
		m := v.pattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		s := step{said: line, verb: &v, words: words{text: m[1:]}}
		if !strings.HasSuffix(v.form, "COND") {
			return s, nil
		}
		last := len(s.text) - 1
		for _, c := range conditions() {
			if m := c.pattern.FindStringSubmatch(s.text[last]); m != nil {
				inner := words{text: m[1:]}
				s.text = append(s.text[:last], m[1:]...) // the nodes that c names count as nodes of the line
				s.holds = func(p *player) bool { return c.holds(p, inner) }
				s.condition = c.form
				return s, nil
			}
		}
		return s, fmt.Errorf("%q is not a condition: test/scenarios.md lists all", s.text[last])
	}
	return step{}, fmt.Errorf("%q is not a line of a scenario: test/scenarios.md lists all", line)
}

// playInBubble plays a tale in a bubble, so that the parts outside the simulator use virtual time
// too.
func playInBubble(t *testing.T, tale tale, seed uint64) (err error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { err = newPlayer(tale.file, seed).play(tale) })
	return err
}

// A player plays one tale.
type player struct {
	file  string
	setup sim.Setup
	fast  []int        // processes with fast clocks
	link  sim.Link     // the current state of every link
	c     *sim.Cluster // nil before the first line that needs a cluster
	meets *handshake   // for tales about connections
	bad   error        // a condition that must never hold, but did
	never []step
	count map[happening]int // what has happened since the last chapter began
	dying map[int]*death
	lost  []losing
	past  []sim.Record // the latest part of the history
	moves int          // number of changes of a member's status
	led   int          // number of chosen leaders
}

// A happening is an action of a machine, as conditions describe it. Processes have the numbers
// of the story, from 1; 0 means any.
type happening struct {
	by, about    int
	what         string // a decision, or "sends", "refuses", "drops" or "moves to"
	kind, reason string // kind and reason of a message, if any
}

// A death is a pending crash of a process, during one of its next saves.
type death struct {
	saves int // number of saves before the crash
	sent  int // number of messages sent before the crash; -1 if the step is not saved
	tears bool
}

// losing is a kind of message that is lost between two processes.
type losing struct {
	from, to int
	kind     string
}

func newPlayer(file string, seed uint64) *player {
	s := simulated(seed, 0)
	return &player{
		file: file, setup: s, link: s.Link,
		count: map[happening]int{}, dying: map[int]*death{},
	}
}

// cluster returns the cluster of the story. The first line after the setup creates it.
func (p *player) cluster() *sim.Cluster {
	if p.c == nil {
		p.setup.Record = p.record // not called before the cluster exists
		p.c = sim.NewCluster(p.setup)
		p.c.Interrupt = p.interrupt
		p.c.Lose = p.loses
		for _, i := range p.fast {
			p.c.SetFast(i)
		}
	}
	return p.c
}

func (p *player) play(tale tale) (err error) {
	defer func() {
		if p.meets != nil {
			err = errors.Join(err, p.meets.close())
		}
	}()
	for _, s := range tale.steps {
		if n := s.greatest(); n > 0 && !s.verb.setsUp && p.meets == nil && !s.verb.meets {
			if p.setup.Size == 0 {
				return s.errorf(tale.file, "no cluster: the first line is %q", clusterForm)
			}
			if all := p.cluster().Processes(); n > all {
				return s.errorf(tale.file, "n%d: the cluster has %d processes", n, all)
			}
		}
		if s.verb.setsUp && p.c != nil {
			return s.errorf(tale.file, "this belongs before the first process starts")
		}
		err := s.verb.do(p, s)
		if p.c != nil && p.c.Violation() != nil {
			err = p.c.Violation()
		}
		if err = cmpOr(p.bad, err); err != nil {
			return s.errorf(tale.file, "%w%s", err, p.history())
		}
	}
	return nil
}

// cmpOr returns the first error that is not nil.
func cmpOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// pass lets time pass until a condition holds, and reports whether it did.
func (p *player) pass(limit time.Duration, done func(*player) bool) bool {
	return p.cluster().RunUntil(limit, func() bool { return p.watch() || done(p) }) && p.bad == nil
}

// watch checks the conditions that must never hold.
func (p *player) watch() bool {
	for _, s := range p.never {
		if p.bad == nil && s.holds(p) {
			p.bad = fmt.Errorf("line %d is %q, but it happened at %v", s.line, s.said, p.c.Now())
		}
	}
	return p.bad != nil
}

// history returns the records before this moment and the first records after it.
func (p *player) history() string {
	if p.c == nil {
		return ""
	}
	lines := []string{""}
	tell := func(past []sim.Record) {
		for _, r := range past {
			lines = append(lines, r.String())
		}
	}
	tell(p.past)
	lines = append(lines, fmt.Sprintf("%12.6f ---- here", p.c.Now().Seconds()))
	p.past, p.never = nil, nil
	p.c.RunFor(lan().HeartbeatInterval)
	tell(p.past[:min(len(p.past), historyLines/4)])
	return strings.Join(lines, "\n") + p.c.Describe()
}

// historyLines is the number of records in the report of a failure.
const historyLines = 40

// record stores a record of the simulator. Heartbeats are only counted.
func (p *player) record(r sim.Record) {
	by := r.Process + 1
	switch r.Kind {
	case sim.Sent:
		k := r.Message.Body.Kind()
		p.happens(happening{by: by, about: p.number(r.Message.To), what: "sends", kind: k.String()})
		if r.IsPeriodic() {
			return
		}
	case sim.Lost, sim.Delivered:
		return
	case sim.Ended:
		p.happens(happening{by: by, what: "stops", reason: r.Text})
	case sim.Traced:
		p.happens(p.decided(by, r.Trace))
		switch r.Trace.Kind {
		case statemachine.MemberMoved:
			p.moves++
		case statemachine.BecameLeader:
			p.led++
		}
	}
	if len(p.past) == historyLines {
		p.past = p.past[1:]
	}
	p.past = append(p.past, r)
}

// decided returns the happening for a decision.
func (p *player) decided(by int, t statemachine.Trace) happening {
	h := happening{by: by, what: t.Kind.String()}
	switch t.Kind {
	case statemachine.Refused:
		h.what, h.about, h.reason = "refuses", p.number(t.Peer), t.Reason.String()
	case statemachine.Dropped:
		h.what, h.about = "drops", p.number(t.Peer)
		h.kind, h.reason = t.Event.String(), t.Reason.String()
	case statemachine.MemberMoved:
		h.what, h.about, h.reason = "moves to", p.number(t.Peer), t.Status.String()
	}
	return h
}

func (p *player) happens(h happening) {
	p.count[h]++
	h.by = 0
	p.count[h]++
}

// number returns the number of the process at an address, or 0.
func (p *player) number(at member.Address) int {
	for i := range p.c.Processes() {
		if p.c.Address(i) == at {
			return i + 1
		}
	}
	return 0
}

// interrupt crashes a process within the step that was chosen for it.
func (p *player) interrupt(i int, out statemachine.Output) (sent int, crash bool) {
	d := p.dying[i+1]
	if d == nil || out.Persist == nil {
		return 0, false
	}
	if d.saves--; d.saves > 0 {
		return 0, false
	}
	delete(p.dying, i+1)
	if d.tears {
		p.c.After(0, func() { p.c.LoseDisk(i) })
	}
	return d.sent, true
}

func (p *player) loses(from, to int, k message.Kind) bool {
	return slices.Contains(p.lost, losing{from + 1, to + 1, k.String()})
}
