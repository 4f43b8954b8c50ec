// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/lowest"
)

// Peers is how the members of a group reach each other, for Over. Its methods may be
// called by several goroutines, and must not block.
type Peers interface {
	// Self is the id of this member, one of Members of the others, and a number that
	// is greater than whenever it opened the group before.
	Self() (id string, run uint64)
	// Members lists all whose messages count, in any order, reached or not.
	Members() []string
	// Send gives a message to one member, or to all others where to is empty. It may
	// be lost. Its receiver must get it from another goroutine.
	Send(to string, m lowest.Message)
}

// Over opens a group by Lowest among peers that are no cluster. Whoever carries their
// messages calls deliver with each one that comes, and who sent it. The other errors are
// those of Options.
func Over(p Peers, group string, o Options) (
	e *Election, deliver func(from string, m lowest.Message), err error,
) {
	o, err = o.withDefaults(group)
	if err == nil && o.Strategy != Lowest {
		err = fmt.Errorf("election: Options.Strategy is %v: peers elect by Lowest alone", o.Strategy)
	}
	if err != nil {
		return nil, nil, err
	}
	e = newElection(group, o, func() {})
	d := e.openLowest(p)
	return e, d.deliver, nil
}

// candidate drives the member of a group that elects by Lowest.
type candidate struct {
	e     *Election
	peers Peers

	mu      sync.Mutex
	machine *lowest.Machine
	reign   *reign        // nil while it does not lead
	moved   chan struct{} // has room for one: its deadline may be another
}

// openLowest begins to take part. The Election knows it before anybody leads.
func (e *Election) openLowest(p Peers) *candidate {
	id, run := p.Self()
	d := &candidate{e: e, peers: p, moved: make(chan struct{}, 1)}
	d.machine = lowest.New(time.Now(), lowest.Config{
		Self: id, Run: run, Members: p.Members(), Timing: e.options.Timing,
	})
	stop, over := make(chan struct{}), make(chan struct{})
	go d.run(stop, over)
	e.leave = func() {
		d.step(func(time.Time) { d.machine.Close() })
		close(stop)
		<-over
	}
	return d
}

// run lets time pass, and looks at the members once in each Sample.
func (d *candidate) run(stop, over chan struct{}) {
	defer close(over)
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		d.mu.Lock()
		wait := d.e.options.Timing.Sample
		if at := d.machine.Deadline(); !at.IsZero() {
			wait = min(wait, max(0, time.Until(at)))
		}
		d.mu.Unlock()
		t.Reset(wait)
		select {
		case <-t.C:
			d.step(d.machine.Advance)
		case <-d.moved:
		case <-stop:
			return
		}
	}
}

// deliver takes a message of another member.
func (d *candidate) deliver(from string, m lowest.Message) {
	d.step(func(now time.Time) { d.machine.Receive(now, from, m) })
}

// step lets the machine do something. What it leads no more has ended before a word of
// that leaves.
func (d *candidate) step(do func(now time.Time)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.machine.Observe(now, d.peers.Members())
	do(now)
	d.publish()
	for _, o := range d.machine.Sent() {
		d.peers.Send(o.To, o.Message)
	}
	select {
	case d.moved <- struct{}{}:
	default:
	}
}

// publish tells the Election who leads now.
func (d *candidate) publish() {
	id, term := d.machine.Leader()
	if r := d.reign; r != nil && !(d.machine.Leads() && term == r.token) {
		d.e.finish(r, causes[d.machine.Reason()])
		d.reign = nil
	}
	if now := (Leadership{id, term}); now != d.e.leadership() {
		d.e.see(now)
	}
	if d.machine.Leads() && d.reign == nil {
		d.reign = d.e.begin(d.e.life, term, func(*reign) {
			d.step(func(now time.Time) { d.machine.Yield(now, term) })
		})
	}
}

// causes are those of contexts, by the reason of the machine.
var causes = map[lowest.Reason]error{
	lowest.Superseded: ErrSuperseded,
	lowest.Yielded:    ErrYielded,
	lowest.Expired:    ErrExpired,
	lowest.Closed:     ErrClosed,
}
