// SPDX-License-Identifier: Apache-2.0

package test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/sim"
)

// TestDiagramsRendered checks that each diagram is rendered from its current source and shown on a
// page. scripts/diagrams.sh ends the SVG with the SHA-256 of the source.
func TestDiagramsRendered(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("../docs/plantuml/*.puml")
	if err != nil || len(sources) == 0 {
		t.Fatalf("found %d diagrams, error %v", len(sources), err)
	}
	var pages strings.Builder
	names, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		pages.WriteString(readText(t, name))
	}
	for _, source := range sources {
		base := filepath.Base(source)
		svg := strings.TrimSuffix(base, ".puml") + ".svg"
		if !strings.Contains(pages.String(), "](plantuml/"+svg+")") {
			t.Errorf("no page of docs shows plantuml/%s", svg)
		}
		want := fmt.Sprintf("<!-- sha256 of %s: %x -->\n",
			base, sha256.Sum256([]byte(readText(t, source))))
		if text := readText(t, filepath.Join(filepath.Dir(source), svg)); !strings.HasSuffix(text, want) {
			t.Errorf("docs/plantuml/%s is older than its source: run scripts/diagrams.sh", svg)
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A drawing is a diagram of docs/plantuml. Its arrows form parts; each part begins with a divider.
// An unknown line is an error, so that everything drawn is checked.
type drawing struct {
	cast  []string // participants, by alias
	parts []part
}

// A part is one sequence of arrows between two dividers.
type part struct {
	name   string
	arrows []string
}

var (
	dividerLine = regexp.MustCompile(`^== (.+) ==$`)
	castLine    = regexp.MustCompile(`^(?:participant|actor) (?:"[^"]+" as )?(\w+)$`)
	arrowLine   = regexp.MustCompile(`^\w+ -(?:\[#\w+\])?-?>x? \w+: .+$`)
	proseLine   = regexp.MustCompile(`^(?:@startuml|@enduml|title |hide footbox|\.\.\.|note .*: |'|$)`)
	noteBegins  = regexp.MustCompile(`^note (?:over|left of|right of) [\w, ]+$`)
)

// readDrawing reads a sequence diagram of docs/plantuml.
func readDrawing(t *testing.T, name string) drawing {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "plantuml", name))
	if err != nil {
		t.Fatal(err)
	}
	var d drawing
	inNote := false
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch m := dividerLine.FindStringSubmatch(line); {
		case inNote:
			inNote = line != "end note"
		case noteBegins.MatchString(line):
			inNote = true
		case m != nil:
			d.parts = append(d.parts, part{name: m[1]})
		case castLine.MatchString(line):
			d.cast = append(d.cast, castLine.FindStringSubmatch(line)[1])
		case arrowLine.MatchString(line) && len(d.parts) > 0:
			p := &d.parts[len(d.parts)-1]
			p.arrows = append(p.arrows, line)
		case !proseLine.MatchString(line):
			t.Errorf("%s:%d: %q: unknown kind of line", name, i+1, line)
		}
	}
	return d
}

// A scene plays one part of a diagram and returns what happened as arrows.
type scene struct {
	part string
	cast []string // participants
	play func(*testing.T) []string
}

// checkScenes checks that each scene does exactly what its part draws, in that order, and that
// every part has a scene.
func checkScenes(t *testing.T, name string, scenes []scene) {
	t.Helper()
	d := readDrawing(t, name)
	for _, p := range d.parts {
		i := slices.IndexFunc(scenes, func(s scene) bool { return s.part == p.name })
		if i < 0 {
			t.Errorf("%s draws %q, which no test plays", name, p.name)
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			if got := scenes[i].play(t); !slices.Equal(got, p.arrows) {
				t.Errorf("%s draws:\n%s\nwhat happened:\n%s",
					name, strings.Join(p.arrows, "\n"), strings.Join(got, "\n"))
			}
		})
	}
	for _, s := range scenes {
		if !slices.ContainsFunc(d.parts, func(p part) bool { return p.name == s.part }) {
			t.Errorf("%s does not draw %q", name, s.part)
		}
		for _, alias := range s.cast {
			if alias != "" && !slices.Contains(d.cast, alias) {
				t.Errorf("%s has no participant %s", name, alias)
			}
		}
	}
}

// A story is a scene with real machines.
type story struct {
	part string
	cast []string // aliases of the processes by number; "" if not drawn
	play func(*testing.T, *stage)
}

// checkStories plays the stories of a diagram. It compares the messages between drawn participants
// from the call of roll to that of cut, and ignores all others.
func checkStories(t *testing.T, name string, stories []story) {
	t.Helper()
	var scenes []scene
	for _, st := range stories {
		scenes = append(scenes, scene{st.part, st.cast, func(t *testing.T) []string {
			s := stage{t: t, cast: st.cast}
			st.play(t, &s)
			sound(t, s.c)
			return s.arrows
		}})
	}
	checkScenes(t, name, scenes)
}

// A stage is a cluster whose messages are recorded as arrows.
type stage struct {
	t       *testing.T
	c       *sim.Cluster
	cast    []string
	dead    string // alias of a process that receives nothing
	memory  []int  // processes with a memory store
	from    string // label of the message with which the recording begins
	rolling bool
	last    string // label of the latest message
	arrows  []string
}

// build creates the cluster of a story. Links are so fast that a part ends before the next timer
// fires.
func (s *stage) build(size int, seeds ...int) *sim.Cluster {
	setup := simulated(1, size)
	setup.Link = sim.Link{Delay: time.Microsecond}
	setup.Seeds, setup.Volatile = seeds, s.memory
	setup.Record = s.record
	s.c = sim.NewCluster(setup)
	return s.c
}

// form starts processes, lets them rest, and returns between two heartbeats.
func (s *stage) form(ids ...int) {
	s.t.Helper()
	for _, i := range ids {
		s.c.Start(i)
	}
	within(s.t, s.c, lan().TTLTimeout, "one cluster", s.c.Settled)
	s.rest()
}

func (s *stage) rest() { s.c.RunFor(lan().LeaderTimeout + lan().HeartbeatInterval/3) }

// lead makes process i the leader.
func (s *stage) lead(i int) {
	s.t.Helper()
	if s.c.Leader() != i {
		if err := s.c.Transfer(s.c.Leader(), i); err != nil {
			s.t.Fatal(err)
		}
	}
	within(s.t, s.c, lan().LeaderTimeout, "leader asked for", func() bool { return s.c.Leader() == i })
	s.rest()
}

// shift moves the heartbeats of process i away from those of the others. They were synchronized by
// a state change or by equal timeouts.
func (s *stage) shift(i int) {
	s.c.Pause(i)
	s.c.RunFor(lan().HeartbeatInterval * 3 / 2)
	s.c.Resume(i, true)
}

// await lets time pass until a drawn process sends a message with this label.
func (s *stage) await(label string) {
	s.t.Helper()
	s.last = ""
	within(s.t, s.c, 4*lan().TTLTimeout, label, func() bool { return s.last == label })
}

// roll starts the recording, immediately or at the first message with the label.
func (s *stage) roll(label string) { s.rolling, s.from = label == "", label }

// cut stops the recording as soon as the condition is true.
func (s *stage) cut(what string, cond func() bool) {
	s.t.Helper()
	within(s.t, s.c, 4*lan().TTLTimeout, what, cond)
	s.rolling = false
}

// sent reports whether n arrows with this label were recorded.
func (s *stage) sent(label string, n int) func() bool {
	return func() bool {
		count := 0
		for _, a := range s.arrows {
			if strings.HasSuffix(a, ": "+label) {
				count++
			}
		}
		return count >= n
	}
}

func (s *stage) record(r sim.Record) {
	if r.Kind != sim.Sent && r.Kind != sim.Lost {
		return
	}
	from, to := s.alias(r.Message.From.Address), s.alias(r.Message.To)
	if from == "" || to == "" {
		return
	}
	s.last = s.label(r.Message)
	if s.from != "" && s.from == s.last {
		s.rolling, s.from = true, ""
	}
	if !s.rolling {
		return
	}
	arrow := "->"
	if isAnswer(r.Message.Body.Kind()) {
		arrow = "-->"
	}
	if r.Kind == sim.Lost { // recorded when it was sent
		s.arrows = s.arrows[:len(s.arrows)-1]
	}
	if r.Kind == sim.Lost || to == s.dead {
		arrow += "x"
	}
	s.arrows = append(s.arrows, fmt.Sprintf("%s %s %s: %s", from, arrow, to, s.last))
}

// number returns the number of the process at an address.
func (s *stage) number(a member.Address) int {
	for i := range s.c.Processes() {
		if s.c.Address(i) == a {
			return i
		}
	}
	s.t.Fatalf("no process has address %v", a)
	return -1
}

// alias returns the name of a process in the diagram, or "" if it is not drawn.
func (s *stage) alias(a member.Address) string {
	if i := s.number(a); i < len(s.cast) {
		return s.cast[i]
	}
	return ""
}

// isAnswer reports whether a message answers another one. The diagram draws such a message with a
// dashed arrow.
func isAnswer(k message.Kind) bool {
	switch k {
	case message.KindLeaderResponse, message.KindJoinClusterResponse, message.KindLeaderKeepAliveAck,
		message.KindSeedKeepAliveAck, message.KindLeaderStatusQueryResponse, message.KindVote,
		message.KindRecordResponse:
		return true
	}
	return false
}

// label returns the name of a message with the details that matter to a reader.
func (s *stage) label(m message.Message) string {
	detail := ""
	switch b := m.Body.(type) {
	case message.LeaderResponse:
		detail = s.leader(m.Claim)
	case message.JoinClusterResponse:
		detail = "accepted"
		if !b.Accepted {
			detail = b.Reason.String()
		}
	case message.MemberStatusUpdate:
		detail = s.alias(b.Member.Address) + " " + b.Member.Shown().String()
	case message.LeaderKeepAlive:
		if !b.Echo.IsZero() {
			detail = "echo"
		}
	case message.LeaderKeepAliveAck:
		if !b.Stamp.IsZero() {
			detail = "stamp"
		}
	case message.SeedKeepAlive, message.SeedKeepAliveAck:
		detail = s.leader(m.Claim)
	case message.LeaderRelieve:
		detail = s.leader(b.Winner)
	case message.ReJoinCluster:
		detail = s.leader(b.Winner)
	case message.LeaderStatusQueryResponse:
		detail = map[bool]string{true: "healthy", false: "not healthy"}[b.Healthy]
	case message.Proposal:
		detail = s.proposal(b)
	case message.Vote:
		detail = s.vote(b)
	case message.LeaderElected:
		detail = s.alias(b.State.Leader)
	case message.RecordRequest:
		detail = requested(b)
	case message.RecordResponse:
		detail = "taken"
		if b.Reason != message.ReasonNone {
			detail = b.Reason.String()
		}
	case message.RecordUpdate:
		detail = updated(b)
	}
	if detail == "" {
		return m.Body.Kind().String()
	}
	return fmt.Sprintf("%v(%s)", m.Body.Kind(), detail)
}

// requested returns the first requested change.
func requested(r message.RecordRequest) string {
	if r.Changes[0].Drop {
		return "drop " + r.Changes[0].Key
	}
	return "set " + r.Changes[0].Key
}

// updated returns the first change of an update.
func updated(u message.RecordUpdate) string {
	switch {
	case len(u.Dropped) > 0:
		return u.Dropped[0] + " is gone"
	case u.Set[0].Revoked:
		return u.Set[0].Key + " is revoked"
	default:
		return u.Set[0].Key + " is set"
	}
}

// proposal returns the stage of a proposal, and its candidate unless that is the proposer.
func (s *stage) proposal(p message.Proposal) string {
	if p.Stage == message.Pre || p.State.Leader == p.ID.Ballot.Proposer {
		return p.Stage.String()
	}
	return p.Stage.String() + ", " + s.alias(p.State.Leader)
}

// vote returns the stage and the result of a vote, with the reason of a refusal or the value of a
// promise.
func (s *stage) vote(v message.Vote) string {
	switch {
	case !v.Granted:
		return v.Stage.String() + ", no: " + v.Reason.String()
	case !v.Accepted.IsZero():
		return v.Stage.String() + ", yes: accepted " + s.alias(v.Accepted.State.Leader)
	default:
		return v.Stage.String() + ", yes"
	}
}

// leader returns the leader of a claim.
func (s *stage) leader(c member.Claim) string {
	if c.IsZero() {
		return "no leader"
	}
	return s.alias(c.Leader)
}
