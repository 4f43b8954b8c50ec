// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
)

const (
	// refusedBound is how long a typo may wait in a cluster without faults until it is refused. It is
	// refused within about a second.
	refusedBound = 5 * time.Second
	// answersText is a part of the error of a node that is refused because a member answers.
	answersText = "another process answers at"
	// maxVersionsBetween is the greatest difference between the versions of two successive leaders. A
	// version is used up by an attempt to elect, and the lies of an intruder raise it by more.
	maxVersionsBetween = 200
)

// claimCheck checks that processes that claim the addresses of members, although they listen
// elsewhere, get nothing, and that the members keep their places.
type claimCheck struct {
	started map[string]int  // number of processes, by kind
	hosts   map[string]bool // names of their evidence
	lost    map[string]int  // number of stores that each node lost
	stores  map[string]string
	refused int
	stopped int
	waits   []evidence // how long each typo waited that was stopped before it was refused
	// reached is the number of dials of intruders that were answered, and spoken that of messages.
	reached, spoken uint64
}

func newClaimCheck() *claimCheck {
	return &claimCheck{
		started: map[string]int{}, hosts: map[string]bool{}, lost: map[string]int{},
		stores: map[string]string{},
	}
}

// takeNote takes a line about what the runner did.
func (c *claimCheck) takeNote(e evidence) error {
	switch e.Kind {
	case kindStart:
	case kindLost:
		c.lost[e.To]++
	case kindClaim:
		c.started[e.Cause]++
		c.hosts[e.From] = true
	default:
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	return nil
}

// takeClaim takes a line of a process that claims an address.
func (f *findings) takeClaim(e evidence) error {
	c, who := f.claims, f.nameOf(owner{e.Node, e.Run})
	switch e.Kind {
	case kindStart:
	case kindSpoke:
		c.reached += e.First
		c.spoken += e.Last
	case kindHold:
		f.noteFault("claims", "%s, which listens elsewhere, had authority with token %d", who, e.Token)
	case kindView:
		if e.View == nil {
			return errors.New("the view has no contents")
		}
		c.stores[e.View.StoreID] = who
		if role := e.View.Role; role == "leader" || role == "follower" || e.View.Quorate {
			f.noteFault("claims", "%s, which listens elsewhere, is %s in %v.%v of %q", who, e.View.Role,
				e.View.Version, e.View.Revision, e.View.Leader)
		}
	case kindEnd:
		switch {
		case e.Cause == causeStopped:
			c.stopped++
			c.waits = append(c.waits, e)
		case strings.Contains(e.Cause, cluster.ErrAddressInUse.Error()) &&
			strings.Contains(e.Cause, answersText):
			c.refused++
		default:
			f.noteFault("claims", "%s, which listens elsewhere, ended with: %s", who, e.Cause)
		}
	default:
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	return nil
}

// checkClaims makes the checks that need all evidence of a cluster.
func (f *findings) checkClaims() {
	c, s := f.claims, f.seats
	if len(c.started) == 0 {
		return
	}
	stores := map[string]map[string]bool{} // of each member
	versions := map[uint64]bool{}
	var newest number
	for at, state := range s.states {
		versions[at.version] = true
		if newest.compare(at) < 0 {
			newest = at
		}
		for _, m := range state.members {
			if who, isClaimed := c.stores[m.StoreID]; isClaimed {
				f.noteFault("claims", "state %v gives the place of %s to %s, which listens elsewhere",
					at, m.Name, who)
			}
			if stores[m.Name] == nil {
				stores[m.Name] = map[string]bool{}
			}
			stores[m.Name][m.StoreID] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		if n := len(stores[name]); n > 1+c.lost[name] {
			f.noteFault("claims", "the states show %d stores of %s, which lost %d",
				n, name, c.lost[name])
		}
	}
	voters := 0
	for _, m := range s.states[newest].orNone().members {
		if m.Voter {
			voters++
		}
	}
	if newest.version > 0 && voters != s.size {
		f.noteFault("claims", "the newest state %v has %d voters, want %d", newest, voters, s.size)
	}
	all := slices.Sorted(maps.Keys(versions))
	for i := 1; i < len(all); i++ {
		if c.started[intruder] > 0 && all[i]-all[i-1] > maxVersionsBetween {
			f.noteFault("claims", "version %d follows version %d: an intruder raised it", all[i], all[i-1])
		}
	}
	f.noteLack(c.started[intruder] > 0 && c.reached == 0, "no intruder reached a node")
}

// orNone returns a state without members if there is none.
func (s *shownState) orNone() shownState {
	if s == nil {
		return shownState{}
	}
	return *s
}

// checkRefused checks in the second cluster, which has no other faults, that each typo was refused
// in time. It excuses those that waited while a process stalled.
func (f *findings) checkRefused() {
	for _, e := range f.other.claims.waits {
		stalled := slices.ContainsFunc(f.other.stalls, func(s evidence) bool {
			return s.End > e.Begin && s.Begin < e.End
		})
		if took := time.Duration(e.End - e.Begin); took > refusedBound && !stalled {
			f.noteFault("other cluster", "%s, which listens elsewhere, was not refused for %v",
				f.nameOf(owner{e.Node, e.Run}), took)
		}
	}
}

// printClaims prints what was checked.
func (c *claimCheck) printClaims(w io.Writer, prefix string) {
	if c.started[typo] > 0 {
		fmt.Fprintf(w, "%s%d typos started: refused %d times, stopped while they waited %d times\n",
			prefix, c.started[typo], c.refused, c.stopped)
	}
	if c.started[intruder] > 0 {
		fmt.Fprintf(w, "%s%d intruders started: %d dials answered, %d messages sent\n",
			prefix, c.started[intruder], c.reached, c.spoken)
	}
}
