// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// These are the kinds of entries of a trace, as in trace.qnt.
const (
	pass = iota
	start
	crash
	stamp
	support
	keep
	hear
	giveUp
	stepDown
	freed
	laterRun
	refused
	renumber
	ask
	pre
	refuse
	choose
	formal
	win
	take
	revise
	request
	leave
	answer
	answered
	extend
	extended
	woke
	follow
	seenDisk
	seenAuthority
	seenVote
	seenAcceptance
	seenRefusal
	seenTrust
	forget
	seenCluster
	announce
)

// names are the names of these kinds, for reports.
var names = [...]string{
	"pass", "start", "crash", "stamp", "support", "keep", "hear", "giveUp", "stepDown", "freed",
	"laterRun", "refused", "renumber", "ask", "pre", "refuse", "choose", "formal", "win", "take",
	"revise", "request", "leave", "answer", "answered", "extend", "extended", "woke", "follow",
	"saves", "has authority", "sends a pre vote", "sends a formal vote", "sends a refusal", "trusts",
	"forget", "handles a message of another cluster", "announce",
}

// trace is a history as replay.js reads it.
type trace struct {
	Name   string     `json:"name"`
	Size   int        `json:"size"`
	Tables string     `json:"tables"`
	Events [][]string `json:"events"` // numbers may exceed what JavaScript reads exactly
	Lines  []int      `json:"lines"`  // line in the history of each entry
	Names  []string   `json:"names"`
}

// translator turns the steps of a history into entries. It only records the actions of nodes. The
// specification decides whether they are allowed and what follows from them.
type translator struct {
	*literals
	trace  trace
	steps  []steplog.Step
	line   int
	trusts bool // refusals of ports end support

	nodes map[member.StoreID]*node
	// started contains the stores of all runs so far. Tests also send messages of other processes.
	started map[member.StoreID]bool
	// arrivals contains the number of times that each keep-alive, stamp or extension will still
	// arrive.
	arrivals map[string]int
	// outcomes lists the revisions that applied a request, according to the answers of the leader. A
	// revision is zero if the leader refused the request.
	outcomes map[taken][]member.Number
	// ends contains the runs that only announced the end of another run, by that run.
	ends   map[member.Identity][]uint64
	passed func() // adds the clock of the step before its first entry
}

// taken identifies a request to a leader.
type taken struct {
	by     member.Identity
	leader member.Identity
	id     uint64
}

// node is the state of one run in the translator.
type node struct {
	n     int64
	id    member.Identity
	disk  paxos.Durable
	clock int64

	acked       member.Identity // the run whose stamp it echoes
	asked       map[string]bool // ballots for which it sent pre proposals
	formal      map[string]paxos.Accepted
	preVotes    map[string][]member.Identity // received pre votes, including refusals
	formalVotes map[string][]member.Identity
	done        map[string]bool // keys of entries that are added only once
	follows     map[member.Address]bool
	heard       map[member.Address]member.Identity // runs whose keep-alives arrived
	received    []received
	version     uint64
	until       int64
	trusted     map[string]steplog.Trust
}

// received is a request that a leader received or made.
type received struct {
	by    member.Identity
	r     message.RecordRequest
	claim uint64 // the version of the leadership that may apply it
	used  bool
}

// translateHistory returns the trace of the first steps of a history.
func translateHistory(name string, steps []steplog.Step, most int) (trace, error) {
	if len(steps) == 0 || steps[0].Event != steplog.Setup || steps[0].Config == nil {
		return trace{}, fmt.Errorf("%s: the first line must be the setup", name)
	}
	cfg := steps[0].Config
	t := &translator{
		literals: newLiterals(steps), steps: steps, trusts: cfg.TrustRefusal,
		trace: trace{Name: name, Size: cfg.Size, Names: names[:]},
		nodes: map[member.StoreID]*node{}, started: map[member.StoreID]bool{}, arrivals: map[string]int{},
		outcomes: map[taken][]member.Number{}, ends: findEnds(steps), passed: func() {},
	}
	t.lookAhead()
	for i, s := range steps[1:min(len(steps), most)] {
		t.line = i + 2
		t.passed = func() {}
		t.addStep(s)
	}
	t.trace.Tables = t.writeTables()
	return t.trace, nil
}

// lookAhead finds the keep-alives that arrive, and the revision that applied each request.
func (t *translator) lookAhead() {
	// An answer names an address. It is for the run that made the last request with that id.
	last := map[taken]member.Identity{}
	for _, s := range t.steps {
		if s.Event == steplog.Deliver && !isIgnored(s, s.Message.Body.Kind()) {
			for _, k := range arrivalKeys(*s.Message) {
				t.arrivals[k]++
			}
			if r, ok := s.Message.Body.(message.RecordRequest); ok {
				from := s.Message.From
				last[taken{leader: s.Node, by: member.Identity{Address: from.Address}, id: r.ID}] = from
			}
		}
		for _, m := range s.Sent {
			if r, ok := m.Body.(message.RecordResponse); ok {
				by := last[taken{leader: s.Node, by: member.Identity{Address: m.To}, id: r.ID}]
				t.noteOutcome(taken{leader: s.Node, by: by, id: r.ID}, r)
			}
		}
		for _, r := range s.Answers {
			t.noteOutcome(taken{leader: s.Node, by: s.Node, id: r.ID}, r)
		}
	}
}

func (t *translator) noteOutcome(request taken, r message.RecordResponse) {
	if r.Reason != message.ReasonUnknown {
		t.outcomes[request] = append(t.outcomes[request], r.Number)
	}
}

// isIgnored reports whether a step ignored the message that it received. If only the echo in a
// message was ignored (ReasonForeignEcho), it returns false.
func isIgnored(s steplog.Step, kind message.Kind) bool {
	return slices.ContainsFunc(s.Ignored, func(i steplog.Ignored) bool {
		return i.Kind == kind.String() && i.Reason != message.ReasonForeignEcho.String()
	})
}

// arrivalKeys returns the keys of a message in arrivals: one for a keep-alive, and two for an ack,
// for its stamp and its extension.
func arrivalKeys(m steplog.Message) []string {
	switch b := m.Body.(type) {
	case message.LeaderKeepAlive:
		text, _ := json.Marshal(m) // never fails, because m was read from JSON
		return []string{string(text)}
	case message.LeaderKeepAliveAck:
		return []string{
			fmt.Sprint("stamp", m.From, m.To, b.Stamp), fmt.Sprint("extension", m.From, m.To, b.Echo),
		}
	}
	return nil
}

// countArrival counts an arrival under a key, and returns 1 if it is the last arrival.
func (t *translator) countArrival(key string) int64 {
	t.arrivals[key]--
	return toInt(t.arrivals[key] == 0)
}

// isLost returns 1 if nothing more arrives under a key.
func (t *translator) isLost(key string) int64 { return toInt(t.arrivals[key] == 0) }

// emitEntry adds an entry.
func (t *translator) emitEntry(e ...int64) {
	t.passed()
	t.passed = func() {}
	t.addEntry(e)
}

func (t *translator) addEntry(e []int64) {
	var text []string
	for _, n := range e {
		text = append(text, strconv.FormatInt(n, 10))
	}
	t.trace.Events = append(t.trace.Events, text)
	t.trace.Lines = append(t.trace.Lines, t.line)
}

func toInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// addStep adds the entries of one step.
func (t *translator) addStep(s steplog.Step) {
	if s.Event == steplog.Start {
		t.addStart(s)
		return
	}
	q := t.nodes[s.Node.StoreID]
	switch {
	case q == nil:
		return
	case s.Event == steplog.Crash || s.Down && s.Saved == nil && len(s.Sent) == 0:
		t.addCrash(q)
		return
	case s.Saved != nil && s.Saved.StoreID != q.id.StoreID:
		t.addNewStore(q, s)
		return
	}
	t.passed = func() {
		if s.Clock > q.clock {
			q.clock = s.Clock
			t.addEntry([]int64{pass, q.n, s.Clock})
		}
	}
	if s.Woke {
		t.emitEntry(woke, q.n)
	}
	t.addActions(q, s)
	if s.Down {
		t.addCrash(q)
	}
}

func (t *translator) addCrash(q *node) {
	t.emitEntry(crash, q.n)
	delete(t.nodes, q.id.StoreID)
	run := q.id
	run.Incarnation = q.disk.Incarnation
	for _, i := range t.ends[run] {
		t.emitEntry(announce, q.n, int64(i))
	}
}

// addNewStore adds a run that forgets a roster and begins again with a memory store.
func (t *translator) addNewStore(q *node, s steplog.Step) {
	t.emitEntry(forget, q.n)
	delete(t.nodes, q.id.StoreID)
	s.Event = steplog.Start
	s.Node.StoreID, s.Node.Incarnation = s.Saved.StoreID, s.Saved.Incarnation
	setup := t.steps[0].Config
	s.Config = &steplog.Config{Timings: setup.Timings, Seeds: setup.Seeds, Volatile: true}
	t.addStart(s)
}

func (t *translator) addStart(s steplog.Step) {
	c := s.Config
	q := &node{
		n: t.numberStore(s.Node.StoreID), id: s.Node, disk: paxos.Durable(*s.Saved), clock: s.Clock,
		asked: map[string]bool{}, formal: map[string]paxos.Accepted{},
		preVotes: map[string][]member.Identity{}, formalVotes: map[string][]member.Identity{},
		done: map[string]bool{}, follows: map[member.Address]bool{},
		heard: map[member.Address]member.Identity{}, trusted: map[string]steplog.Trust{},
	}
	t.nodes[s.Node.StoreID], t.started[s.Node.StoreID] = q, true
	var seeds []member.Identity // only their addresses count
	for _, a := range c.Seeds {
		seeds = append(seeds, member.Identity{Address: a})
	}
	t.emitEntry(start, q.n, t.addRun(s.Node), s.Clock,
		t.cfgs.add(t.writeTimings(c.Timings, c.OtherTimings)), t.sets.add(t.writeSet(seeds)),
		toInt(c.JoinOnly), toInt(c.Volatile), int64(c.Waited))
	t.emitDisk(q, q.disk)
}

func (t *translator) emitDisk(q *node, d paxos.Durable) {
	t.emitEntry(seenDisk, q.n, int64(d.Incarnation), t.ballots.add(t.writeBallot(d.Promised)),
		t.values.add(t.writeValue(d.Accepted)), t.states.add(t.writeState(d.Held)))
}
