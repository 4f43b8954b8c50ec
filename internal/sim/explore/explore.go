// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"strings"
)

// minSize and maxSize bound the cluster: one node has nothing to order, and more
// than three have more states than fit into memory.
const (
	minSize = 2
	maxSize = 3
)

// Options says how far to go.
type Options struct {
	Size     int // N, 2 or 3
	Attempts int // proposals that begin, of all nodes together
	Crashes  int
	// Refusals has votes arrive that say no, too. Without them a proposer that is
	// refused waits in vain, as if they were lost.
	Refusals bool
	// Paxos explores paxos.Proposer and paxos.Acceptor alone, with nothing around them: no rule that
	// protects a living leader keeps a node from proposing or voting.
	Paxos  bool
	States int // visited at most; 0 for no limit
}

// Result is what was seen.
type Result struct {
	States      int // of the cluster
	Transitions int // from one to another
	Depth       int // steps to the farthest one
	Elections   int // transitions in which a leader was chosen
	Machines    int // states of single nodes
	Letters     int // different events
	Complete    bool
	// Violation is the first invariant that broke, with a shortest way to it;
	// nil when there is none.
	Violation *Violation
}

// Violation is a state that must not be, and how it came to be.
type Violation struct {
	Text  string
	Steps []string
}

// Error makes a Violation an error.
func (v *Violation) Error() string {
	return v.Text + "\n" + strings.Join(v.Steps, "\n")
}

// place is one state of the cluster.
type place struct {
	at       [maxSize]int32
	letters  int32
	past     int32
	attempts uint8
	crashes  uint8
}

// way says how a place was first reached.
type way struct {
	from int32
	node int8
	by   int32 // a letter, or one of those below
}

const (
	rings   = -1
	crashes = -2
	lates   = -3 // less the letter: it comes late
)

// explorer is one search.
type explorer struct {
	*world
	opt    Options
	pasts  pasts
	seen   map[place]struct{}
	places []place
	ways   []way
	result Result
}

// Run explores breadth first, so a violation comes with a shortest way to it.
func Run(opt Options) (Result, error) {
	if opt.Size < minSize || opt.Size > maxSize {
		return Result{}, fmt.Errorf("explore: Size %d, want %d to %d", opt.Size, minSize, maxSize)
	}
	if opt.Attempts < 0 || opt.Attempts > 255 || opt.Crashes < 0 || opt.Crashes > 255 {
		return Result{}, fmt.Errorf("explore: %d attempts, %d crashes, want 0 to 255 of each",
			opt.Attempts, opt.Crashes)
	}
	x := newExplorer(opt)
	x.result.Complete = x.exploreAll()
	x.result.States = len(x.places)
	x.result.Letters = len(x.letters)
	for _, n := range x.nodes {
		x.result.Machines += len(n.states)
	}
	return x.result, nil
}

func newExplorer(opt Options) *explorer {
	x := &explorer{
		world: newWorld(opt),
		opt:   opt,
		pasts: newPasts(),
		seen:  map[place]struct{}{},
	}
	x.visitPlace(place{}, way{from: -1})
	return x
}

// exploreAll takes every step from every place, and reports whether it came to an end.
func (x *explorer) exploreAll() bool {
	level := len(x.places) // the first place one step farther
	for i := 0; i < len(x.places); i++ {
		if i == level {
			level = len(x.places)
			x.result.Depth++
		}
		if x.opt.States > 0 && len(x.places) > x.opt.States {
			return false
		}
		p := x.places[i]
		for n := range x.nodes {
			at := p.at[n]
			x.takeStep(i, n, rings, x.ringTimer(n, at))
			if int(p.crashes) < x.opt.Crashes {
				x.takeStep(i, n, crashes, x.crashNode(n, at))
			}
		}
		for _, l := range x.sets.members[p.letters] {
			n := x.letters[l].to
			x.takeStep(i, n, l, x.deliverLetter(p.at[n], l, false))
			if x.mayBeLate(p.at[n], l) {
				x.takeStep(i, n, lates-l, x.deliverLetter(p.at[n], l, true))
			}
		}
		if x.result.Violation != nil {
			return true
		}
	}
	return true
}

// takeStep goes from place i by one step of node n.
func (x *explorer) takeStep(i, n int, by int32, e *effect) {
	p := x.places[i]
	if x.result.Violation != nil || e.isIdle(p.at[n]) ||
		int(p.attempts)+e.attempts > x.opt.Attempts {
		return
	}
	w := way{int32(i), int8(n), by}
	if by == crashes {
		p.crashes++
	}
	fault := x.applyEffect(&p, n, e)
	x.result.Transitions++
	if fault == nil {
		fault = x.judgePlace(&p)
	}
	if fault != nil {
		x.result.Violation = &Violation{fault.Error(), x.tellStory(w)}
		return
	}
	x.visitPlace(p, w)
}

// applyEffect carries out an effect. It then forgets the letters that can do nothing
// any more, so that places which differ in nothing else are one.
func (x *explorer) applyEffect(p *place, n int, e *effect) error {
	p.at[n] = e.next
	p.attempts += uint8(e.attempts)
	p.letters = x.sets.without(p.letters, step{n, e.next}, func(l int32) bool {
		return x.letters[l].to == n && x.isDead(e.next, l)
	})
	for _, l := range e.sent {
		p.past = x.pastOf(*p, l, &x.result.Elections)
		if !x.isDead(p.at[x.letters[l].to], l) {
			p.letters = x.sets.with(p.letters, l)
		}
	}
	return e.fault
}

func (x *explorer) visitPlace(p place, w way) {
	if _, ok := x.seen[p]; ok {
		return
	}
	x.seen[p] = struct{}{}
	x.places = append(x.places, p)
	x.ways = append(x.ways, w)
}

// tellStory tells the way to a place in words.
func (x *explorer) tellStory(last way) []string {
	var steps []string
	for w := last; w.from >= 0; w = x.ways[w.from] {
		name := x.nodes[w.node].cfg.Name
		switch w.by {
		case rings:
			steps = append(steps, name+"'s timer fires")
		case crashes:
			steps = append(steps, name+" crashes and comes back")
		case min(w.by, lates):
			text := " misses its leader, and takes "
			steps = append(steps, name+text+describeMessage(x.letters[lates-w.by].msg))
		default:
			steps = append(steps, name+" takes "+describeMessage(x.letters[w.by].msg))
		}
	}
	for i, j := 0, len(steps)-1; i < j; i, j = i+1, j-1 {
		steps[i], steps[j] = steps[j], steps[i]
	}
	return steps
}
