// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"strings"
)

// minSize and maxSize bound the size of the cluster. A single node has no events to order, and the
// states of more than three nodes do not fit into memory.
const (
	minSize = 2
	maxSize = 3
)

// Options bounds the search.
type Options struct {
	Size     int // N, 2 or 3
	Attempts int // number of proposals, summed over all nodes
	Crashes  int
	// Refusals means that refused votes are delivered too. Otherwise refused votes are lost, and the
	// proposer waits.
	Refusals bool
	// Paxos selects paxos.Proposer and paxos.Acceptor alone, without the rules that keep a
	// node from proposing or voting while a leader is alive.
	Paxos  bool
	States int // largest number of states to visit; 0 means no limit
}

// Result describes the explored states.
type Result struct {
	States      int // number of states of the cluster
	Transitions int // steps between states
	Depth       int // number of steps to the farthest state
	Elections   int // number of transitions in which a leader was chosen
	Machines    int // number of states of single nodes
	Events      int // number of different events
	Complete    bool
	// Violation is the first violation that was found, with a shortest path to it, or nil.
	Violation *Violation
}

// Violation is an invalid state and the steps that lead to it.
type Violation struct {
	Text  string
	Steps []string
}

// Error implements error.
func (v *Violation) Error() string {
	return v.Text + "\n" + strings.Join(v.Steps, "\n")
}

// position is one state of the cluster.
type position struct {
	at       [maxSize]int32
	events   int32
	observed int32
	attempts uint8
	crashes  uint8
}

// origin is the step that first reached a position.
type origin struct {
	from int32
	node int8
	by   int32 // an event, or one of the constants below
}

const (
	timerFires = -1
	crashes    = -2
	lateEvents = -3 // lateEvents - n: event n arrives after its receiver lost its leader
)

// explorer is a search.
type explorer struct {
	*world
	opt          Options
	observations observations
	seen         map[position]struct{}
	positions    []position
	origins      []origin
	result       Result
}

// Run searches breadth first, so that the path to a violation is a shortest one.
func Run(opt Options) (Result, error) {
	if opt.Size < minSize || opt.Size > maxSize {
		return Result{}, fmt.Errorf("explore: Size is %d, want %d to %d", opt.Size, minSize, maxSize)
	}
	if opt.Attempts < 0 || opt.Attempts > 255 || opt.Crashes < 0 || opt.Crashes > 255 {
		return Result{}, fmt.Errorf("explore: %d attempts and %d crashes: want 0 to 255 of each",
			opt.Attempts, opt.Crashes)
	}
	x := newExplorer(opt)
	x.result.Complete = x.exploreAll()
	x.result.States = len(x.positions)
	x.result.Events = len(x.events)
	for _, n := range x.nodes {
		x.result.Machines += len(n.states)
	}
	return x.result, nil
}

func newExplorer(opt Options) *explorer {
	x := &explorer{
		world:        newWorld(opt),
		opt:          opt,
		observations: newObservations(),
		seen:         map[position]struct{}{},
	}
	x.visitPosition(position{}, origin{from: -1})
	return x
}

// exploreAll takes every step from every position. It reports whether the search completed.
func (x *explorer) exploreAll() bool {
	level := len(x.positions) // index of the first position of the next depth
	for i := 0; i < len(x.positions); i++ {
		if i == level {
			level = len(x.positions)
			x.result.Depth++
		}
		if x.opt.States > 0 && len(x.positions) > x.opt.States {
			return false
		}
		p := x.positions[i]
		for n := range x.nodes {
			at := p.at[n]
			x.takeStep(i, n, timerFires, x.fireTimer(n, at))
			if int(p.crashes) < x.opt.Crashes {
				x.takeStep(i, n, crashes, x.crashNode(n, at))
			}
		}
		for _, l := range x.sets.members[p.events] {
			n := x.events[l].to
			x.takeStep(i, n, l, x.deliverEvent(p.at[n], l, false))
			if x.mayBeLate(p.at[n], l) {
				x.takeStep(i, n, lateEvents-l, x.deliverEvent(p.at[n], l, true))
			}
		}
		if x.result.Violation != nil {
			return true
		}
	}
	return true
}

// takeStep lets node n take one step from position i.
func (x *explorer) takeStep(i, n int, by int32, e *effect) {
	p := x.positions[i]
	if x.result.Violation != nil || e.isIdle(p.at[n]) ||
		int(p.attempts)+e.attempts > x.opt.Attempts {
		return
	}
	w := origin{int32(i), int8(n), by}
	if by == crashes {
		p.crashes++
	}
	fault := x.applyEffect(&p, n, e)
	x.result.Transitions++
	if fault == nil {
		fault = x.checkPosition(&p)
	}
	if fault != nil {
		x.result.Violation = &Violation{fault.Error(), x.describePath(w)}
		return
	}
	x.visitPosition(p, w)
}

// applyEffect applies an effect to a position. It removes events that can no longer have an effect.
// So positions that differ only in such events become equal.
func (x *explorer) applyEffect(p *position, n int, e *effect) error {
	p.at[n] = e.next
	p.attempts += uint8(e.attempts)
	p.events = x.sets.without(p.events, step{n, e.next}, func(l int32) bool {
		return x.events[l].to == n && x.isDead(e.next, l)
	})
	for _, l := range e.sent {
		p.observed = x.observeEvent(*p, l, &x.result.Elections)
		if !x.isDead(p.at[x.events[l].to], l) {
			p.events = x.sets.with(p.events, l)
		}
	}
	return e.err
}

func (x *explorer) visitPosition(p position, w origin) {
	if _, ok := x.seen[p]; ok {
		return
	}
	x.seen[p] = struct{}{}
	x.positions = append(x.positions, p)
	x.origins = append(x.origins, w)
}

// describePath describes the path to a position.
func (x *explorer) describePath(last origin) []string {
	var steps []string
	for w := last; w.from >= 0; w = x.origins[w.from] {
		name := x.nodes[w.node].cfg.Name
		switch w.by {
		case timerFires:
			steps = append(steps, name+"'s timer fires")
		case crashes:
			steps = append(steps, name+" crashes and restarts")
		case min(w.by, lateEvents):
			text := " misses its leader and receives "
			steps = append(steps, name+text+describeMessage(x.events[lateEvents-w.by].msg))
		default:
			steps = append(steps, name+" receives "+describeMessage(x.events[w.by].msg))
		}
	}
	for i, j := 0, len(steps)-1; i < j; i, j = i+1, j-1 {
		steps[i], steps[j] = steps[j], steps[i]
	}
	return steps
}
