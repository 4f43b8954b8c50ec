// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/leader"
)

func TestS1EachConfiguredMemberLeads(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for _, group := range []string{"a", "b"} {
			for i := range 2 {
				e := w.open(i, group, Options{Strategy: Static})
				work(t, e).next(t)
				if l, ok := e.Leader(); !ok || l.ID != address(i).String() || !e.IsLeader() {
					t.Errorf("Leader: %+v, %v", l, ok)
				}
			}
		}
	})
}

func TestS2NobodyIsConfigured(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for i := range 3 {
			e := w.open(i, "group", Options{Strategy: Standby})
			work(t, e).idle(t, 10*time.Minute)
			if l, ok := e.Leader(); ok || e.IsLeader() {
				t.Errorf("Leader: %+v", l)
			}
		}
	})
}

func TestS3Contradictions(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    Options
		want []string
	}{
		{"none", Options{}, []string{"Options.Strategy is Strategy(0)"}},
		{"unknown", Options{Strategy: 9}, []string{"Options.Strategy is Strategy(9)"}},
		{"timing of another", Options{Strategy: Quorum, Timing: DefaultTiming()},
			[]string{"Options.Timing is set, but applies only to Lowest, not to quorum"}},
		{"two faults", Options{Strategy: Static, Timing: DefaultTiming(), RetryFor: -1},
			[]string{"applies only to Lowest, not to static", "Options.RetryFor is -1ns"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.o.withDefaults("group")
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
	var s Strategy
	if err := s.UnmarshalText([]byte("leader,gossip")); err == nil {
		t.Error("two strategies together: no error")
	}
	for _, want := range []Strategy{Quorum, Lowest, Static, Standby} {
		text, err := want.MarshalText()
		if err == nil {
			err = s.UnmarshalText(text)
		}
		if err != nil || s != want {
			t.Errorf("%v became %v by its text: %v", want, s, err)
		}
	}
}

var errNoUpstream = errors.New("no upstream")

func fails(context.Context) error { return errNoUpstream }

// hour is how long Fabric retries failed work.
const hour = time.Hour

func TestS4StaticNeverGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := newFixedSource(leader.Holder{ID: "a"})
		c := leader.New(t.Context(), source, leader.Options{})
		static := workWith(t, c, fails)
		first := static.next(t)
		for s := first; s.at.Sub(first.at) < 10*hour; {
			before := s
			s = static.next(t)
			if pause := s.at.Sub(before.at); pause < 100*time.Millisecond || pause > 10*time.Second {
				t.Fatalf("a pause of %v", pause)
			}
		}
		pause(t, time.Millisecond)
		if !c.IsLeader() {
			t.Error("it does not lead")
		}
		if err := c.Close(t.Context()); err != nil || c.IsLeader() {
			t.Errorf("Close: %v; leads %v", err, c.IsLeader())
		}
	})
}

func TestS4OthersGiveUpAfterRetryFor(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world, o Options) {
		o.RetryFor = 2 * time.Minute
		all := w.openAll("group", o)
		i := leaderOf(t, all)
		first := workWith(t, all[i], fails).next(t)
		<-first.term.Done()
		if took := time.Since(first.at); first.term.Err() != leader.ErrResigned ||
			took < o.RetryFor-10*time.Second || took > o.RetryFor {
			t.Errorf("gave up after %v, %v, want about %v", took, first.term.Err(), o.RetryFor)
		}
		next := leaderOf(t, all)
		for ; next == i; next = leaderOf(t, all) {
			pause(t, sample)
		}
	})
}

func TestS5DefaultsAndFaults(t *testing.T) {
	o, err := Options{Strategy: Lowest}.withDefaults("group")
	if want := (Options{Lowest, DefaultTiming(), 0}); o != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", o, err, want)
	}
	d := DefaultTiming()
	if d.Grace != 15*time.Second || d.Sample != time.Second || d.Alive != 10*time.Second ||
		d.Campaign != 5*time.Second || d.Hold != 6*d.Alive {
		t.Errorf("DefaultTiming: %+v", d)
	}
	for name, change := range map[string]func(*Options){
		"Timing.Grace":         func(o *Options) { o.Timing.Grace = 0 },
		"Timing.Sample":        func(o *Options) { o.Timing.Sample = -1 },
		"Timing.Alive":         func(o *Options) { o.Timing.Alive = lowest.MinTiming - 1 },
		"Timing.Campaign":      func(o *Options) { o.Timing.Campaign = lowest.MaxTiming + 1 },
		"Timing.Hold":          func(o *Options) { o.Timing.Hold = -time.Hour },
		"at most Timing.Grace": func(o *Options) { o.Timing.Sample = o.Timing.Grace + 1 },
		"Options.RetryFor":     func(o *Options) { o.RetryFor = -1 },
	} {
		o := Options{Strategy: Lowest, Timing: DefaultTiming()}
		change(&o)
		if _, err := o.withDefaults("group"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q in it", err, name)
		}
	}
	for _, group := range []string{"", strings.Repeat("a", MaxGroupBytes+1), "a\nb"} {
		if _, err := byQuorum().withDefaults(group); err == nil {
			t.Errorf("group %q: no error", group)
		}
	}
}
