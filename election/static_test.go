// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/lowest"
)

func TestS1EachConfiguredMemberLeads(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for _, group := range []string{"a", "b"} {
			for i := range 2 {
				e := w.open(i, group, Options{Strategy: Static})
				work(t, e).next(t)
				if l, ok := e.Leader(); !ok || l.Leader != address(i).String() || !e.IsLeader() {
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
		{"timing of another", Options{Strategy: Quorum, Timing: lowest.DefaultTiming()},
			[]string{"Options.Timing is set with quorum"}},
		{"two faults", Options{Strategy: Static, Timing: lowest.DefaultTiming(), Budget: 1},
			[]string{"Timing is set with static-leader", "Budget is set with static-leader"}},
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
		t.Error("two strategies at once: no error")
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

func TestS4StaticNeverGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newElection("group", Options{Strategy: Static, Budget: DefaultBudget}, func() {})
		e.begin(e.life, 0, nil)
		static := workWith(t, e, fails)
		first := static.next(t)
		for s := first; s.at.Sub(first.at) < 10*DefaultBudget; {
			before := s
			s = static.next(t)
			if pause := s.at.Sub(before.at); pause < firstPause || pause > longestPause {
				t.Fatalf("a pause of %v", pause)
			}
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		first.ends(t, ErrClosed)
	})
}

func TestS4OthersGiveUpAfterTheBudget(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world, o Options) {
		o.Budget = 2 * time.Minute
		all := w.openAll("group", o)
		i := leaderOf(t, all)
		first := workWith(t, all[i], fails).next(t)
		first.ends(t, ErrYielded)
		if took := time.Since(first.at); took < o.Budget-longestPause || took > o.Budget {
			t.Errorf("gave up after %v, want about %v", took, o.Budget)
		}
		if next := leaderOf(t, all); next == i {
			t.Error("it leads on")
		}
	})
}

// An attempt that went on for a while was none that failed.
func TestS4SuccessResetsTheBudget(t *testing.T) {
	var p pauses
	for range 200 {
		p.next(time.Second)
	}
	if p.last != longestPause || p.sum < 20*time.Minute {
		t.Errorf("after 200 failures the pause is %v, in sum %v", p.last, p.sum)
	}
	if got := p.next(longestPause + 1); got != firstPause || p.sum != firstPause {
		t.Errorf("after an attempt that went on: %v, in sum %v, want %v", got, p.sum, firstPause)
	}
	if got := p.next(0); got != firstPause*6/5 {
		t.Errorf("the second pause is %v", got)
	}
}

func TestS5DefaultsAndFaults(t *testing.T) {
	o, err := Options{Strategy: Lowest}.withDefaults("group")
	if want := (Options{Lowest, lowest.DefaultTiming(), DefaultBudget}); o != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", o, err, want)
	}
	d := lowest.DefaultTiming()
	if d.Grace != 15*time.Second || d.Sample != time.Second || d.Alive != 10*time.Second ||
		d.Campaign != 5*time.Second || d.Hold != 6*d.Alive {
		t.Errorf("DefaultTiming: %+v", d)
	}
	for name, change := range map[string]func(*Options){
		"Timing.Grace":    func(o *Options) { o.Timing.Grace = 0 },
		"Timing.Sample":   func(o *Options) { o.Timing.Sample = -1 },
		"Timing.Alive":    func(o *Options) { o.Timing.Alive = lowest.MinTiming - 1 },
		"Timing.Campaign": func(o *Options) { o.Timing.Campaign = lowest.MaxTiming + 1 },
		"Timing.Hold":     func(o *Options) { o.Timing.Hold = -time.Hour },
		"at most Grace":   func(o *Options) { o.Timing.Sample = o.Timing.Grace + 1 },
		"Options.Budget":  func(o *Options) { o.Budget = -1 },
	} {
		o := Options{Strategy: Lowest, Timing: lowest.DefaultTiming()}
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
