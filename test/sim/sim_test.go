// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/statemachine"
)

// TestSeedsAreClean runs seeds, each with a different cluster and different faults. With -short it
// runs 200, for every change of the code.
func TestSeedsAreClean(t *testing.T) {
	s := Sweeping{Options: Options{Seed: 1}, Runs: int(depth(1600))}
	r := Sweep(s)
	t.Log(r)
	for _, f := range r.Failed {
		t.Errorf("%v", f)
	}
	if r.Runs != s.Runs && len(r.Failed) < MaxFailures {
		t.Errorf("did %d runs, want %d", r.Runs, s.Runs)
	}
	// Runs without faults or leaders would pass too.
	if r.Changes < r.Runs/4 || r.Versions < r.Runs {
		t.Errorf("%d leaders and %d changes in %d runs: the faults do too little",
			r.Versions, r.Changes, r.Runs)
	}
	for i, n := range r.Happened {
		if n == 0 {
			t.Errorf("no fault of the class %v in %d runs", faultNames[i], r.Runs)
		}
	}
	if r.Hopeless+r.Void > r.Runs/4 {
		t.Errorf("%d of %d runs were excused", r.Hopeless+r.Void, r.Runs)
	}
	if !testing.Short() { // fewer runs do not reach the rarest rules
		covered(t, r.Cover)
	}
}

// rare lists rules that few runs of TestSeedsAreClean reach. This test requires only that some run
// reaches them. The command make swarm requires that runs reach them after a fault of each class.
var rare = []rule{
	rule(message.ReasonEarlierRun), rule(message.ReasonOldIncarnation),
	rule(message.ReasonHoldsState), rule(message.ReasonNotMember),
	rule(message.ReasonLeaderBound), rule(message.ReasonQuorumAtStake),
	rule(message.ReasonOtherVersion), rule(message.ReasonBound),
	rule(message.ReasonForeignEcho), rule(message.ReasonUnknownMember),
	rule(message.ReasonSupports), rule(message.ReasonHealthyLeader),
	rule(message.ReasonOldBase), rule(message.ReasonLeaseRuns),
	rule(message.ReasonJoinOnly), rule(message.ReasonOtherSeeds),
	rule(message.ReasonVotedTwice), rule(message.ReasonNotActive),
	rule(message.ReasonOtherCluster), rule(message.ReasonNotCandidate),
	ruleTraces + rule(statemachine.NewRun), ruleTraces + rule(statemachine.Raised),
	ruleTraces + rule(statemachine.SeatKept), ruleTraces + rule(statemachine.Postponed), ruleFenced,
}

// rarest lists rules that one run in thousands reaches, which make swarm requires. Tests of the
// state machine and TestAForgottenClusterStaysForgotten reach them with every change.
var rarest = []rule{rule(message.ReasonLeaderBound), rule(message.ReasonOtherCluster)}

// covered fails the test if a cell of the table of rules and faults is empty.
func covered(t *testing.T, table Table) {
	t.Helper()
	for r := range rules {
		switch {
		case r.whyUnreachable() != "":
			if table.runs[r] > 0 {
				t.Errorf("%v was reached, although it is unreachable: it %s", r, r.whyUnreachable())
			}
		case table.runs[r] == 0 && !slices.Contains(rarest, r):
			t.Errorf("no run reached the rule %v", r)
		}
	}
	for _, cell := range table.Empty() {
		if !slices.Contains(rare, cell.rule) {
			t.Errorf("no run reached the rule %v", cell)
		}
	}
}

// TestRefusedFoundingWaits repeats a founding whose candidates refuse to lead. The proposer must
// wait before it tries again, as after any failed attempt.
func TestRefusedFoundingWaits(t *testing.T) {
	o := Options{Seed: 5018884, Size: 5, For: 108 * time.Second}
	if v := Run(o).Violation; v != nil {
		t.Error(v)
	}
}

// TestElectionsAreFast checks the medians and 99th percentiles of protocol.md section 11, L1, L2
// and L4.
func TestElectionsAreFast(t *testing.T) {
	r := Sweep(Sweeping{Options: Options{Seed: 100_000}, Runs: int(depth(1600))})
	for _, name := range []string{
		"leader after a crash", "leader after isolation", "all active after a heal",
		"leader after faults", "all active after faults", "stopped after leave",
		"leader after a transfer", "all active after a start", "active without seeds",
		"leader with slow disks",
	} {
		ms := r.Measures[name]
		if len(ms) == 0 {
			t.Errorf("%s: never measured in %d runs", name, r.Runs)
			continue
		}
		if len(ms) < 100 { // the run in a hundred that may take longer
			slices.SortFunc(ms, func(a, b Measure) int {
				return cmp.Compare(float64(a.Took)/float64(a.Bound), float64(b.Took)/float64(b.Bound))
			})
			ms = ms[:len(ms)-1]
		}
		if got := quantile(ms, 0.99); got > 1 {
			t.Errorf("%s: the 99th percentile of %d is %.2f of its bound", name, len(ms), got)
		}
	}
	// The limit is 1.05 x LeaderTimeout in the tightest profile, as a fraction of the bound.
	if got := quantile(r.Measures["leader after a crash"], 0.5); got > 0.76 {
		t.Errorf("leader after a crash: the median is %.2f of the bound, want at most 0.76", got)
	}
}

// TestSameSeedSameRun checks that a run is a function of its seed (A20).
func TestSameSeedSameRun(t *testing.T) {
	for seed := range uint64(20) {
		a, b := Run(Options{Seed: seed}), Run(Options{Seed: seed})
		if a.Hash != b.Hash || a.Steps != b.Steps {
			t.Errorf("seed %d: %d steps with hash %x, then %d with %x",
				seed, a.Steps, a.Hash, b.Steps, b.Hash)
		}
		lines := 0
		c := Run(Options{Seed: seed, Record: func(Record) { lines++ }})
		if c.Hash != a.Hash || lines == 0 {
			t.Errorf("seed %d: hash %x with a record of %d lines, %x without", seed, c.Hash, lines, a.Hash)
		}
	}
}

// TestRecordsOutliveALateElection checks a run in which all remaining members are drained, and the
// leader hands over to a member that has just crashed. The next leader is elected late, and keeps
// the records of the crashed member for HoldTimeout from the election.
func TestRecordsOutliveALateElection(t *testing.T) {
	r := Run(Options{Seed: 7521213, Size: 3, For: 50 * time.Second})
	if r.Violation != nil {
		t.Errorf("%v; repeat with: %s", r.Violation, r.Options.Replay())
	}
}

// TestReplayKeepsWhatWasDrawn checks that the options in a result repeat the run. They contain the
// drawn size and duration.
func TestReplayKeepsWhatWasDrawn(t *testing.T) {
	for seed := range uint64(20) {
		a := Run(Options{Seed: seed})
		if b := Run(a.Options); b.Hash != a.Hash {
			t.Errorf("seed %d: %s makes another run", seed, a.Options.Replay())
		}
	}
}

func TestOptionsAreValidated(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, ""},
		{Options{Size: MaxSize, For: time.Hour}, ""},
		{Options{Size: MaxSize + 1}, "Size"},
		{Options{Size: -1}, "Size"},
		{Options{For: -1}, "For"},
		{Options{For: MaxFor + 1}, "For"},
	} {
		err := c.o.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("Validate(%+v) = %v, want an error about %q", c.o, err, c.want)
		}
	}
}

func TestEveryTimingsIsValid(t *testing.T) {
	r := randomStream(1, streamOptions)
	for range 1000 {
		if got := drawTimings(r); got.Validate() != nil {
			t.Fatalf("drawTimings = %+v: %v", got, got.Validate())
		}
	}
}

func TestClocks(t *testing.T) {
	r := randomStream(1, streamClocks)
	for range 2000 {
		c := drawClock(r)
		if c.rate < rateMin || c.rate > rateMax {
			t.Fatalf("drawClock: rate %d, want %d to %d", c.rate, rateMin, rateMax)
		}
		g := r.Int64N(int64(48 * time.Hour))
		if back := c.globalTime(c.at(g)); back > g || c.at(back) != c.at(g) {
			t.Fatalf("%+v: global(at(%d)) = %d", c, g, back)
		}
		local := c.at(g).Add(time.Duration(r.Int64N(int64(time.Minute))))
		at := c.globalTime(local)
		if c.at(at).Before(local) || at > 0 && !c.at(at-1).Before(local) {
			t.Fatalf("%+v: global(%v) = %d is not the first time at which the clock reads it", c, local, at)
		}
	}
}

func TestQueueKeepsOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var q queue
	var lastAt int64
	lastTo := 0
	for i := range 5000 {
		if q.len() > 0 && r.IntN(2) == 0 {
			at := q.nextTime()
			it := q.pop()
			if at < lastAt || at == lastAt && it.to < lastTo {
				t.Fatalf("popped %d at %d after %d at %d", it.to, at, lastTo, lastAt)
			}
			lastAt, lastTo = at, it.to
			continue
		}
		q.push(lastAt+1+r.Int64N(5), item{to: i})
	}
}

func TestNetworkFaults(t *testing.T) {
	const messages = 20_000
	count := func(l Link, cut bool) (arrived, twice int, reordered bool, latest time.Duration) {
		n := newNetwork(2, l, randomStream(1, streamNetwork), &recording{})
		if cut {
			n.linkOf(0, 1).cuts++
		}
		var last int64
		for i := range int64(messages) {
			now := i * int64(time.Millisecond)
			at, copies := n.drawArrivals(0, 1, now)
			arrived += min(copies, 1)
			twice += copies / 2
			for _, a := range at[:copies] {
				reordered = reordered || a < last
				last = max(last, a)
				latest = max(latest, time.Duration(a-now))
			}
		}
		return arrived, twice, reordered, latest
	}
	for _, c := range []struct {
		name                   string
		link                   Link
		cut                    bool
		arrived, twice         int // approximately
		reordered              bool
		earliest, latestAtMost time.Duration
	}{
		{"a perfect link", Link{Delay: time.Millisecond}, false, messages, 0, false,
			time.Millisecond, time.Millisecond},
		{"a cut one", Link{Delay: time.Millisecond}, true, 0, 0, false, 0, 0},
		{"loss", Link{Loss: 0.3}, false, messages * 7 / 10, 0, false, 0, 0},
		{"duplication", Link{Duplicate: 0.25}, false, messages, messages / 4, false, 0, time.Second},
		{"a heavy tail keeps order", Link{Late: 0.01, MaxLate: 5 * time.Second}, false, messages, 0,
			false, time.Second, 6 * time.Second},
		{"unless it may not", Link{Late: 0.01, MaxLate: 5 * time.Second, Unordered: true}, false,
			messages, 0, true, time.Second, 5 * time.Second},
	} {
		arrived, twice, reordered, latest := count(c.link, c.cut)
		near := func(got, want int) bool { return got >= want-messages/50 && got <= want+messages/50 }
		if !near(arrived, c.arrived) || !near(twice, c.twice) || reordered != c.reordered {
			t.Errorf("%s: %d arrived, %d twice, reordered=%v; want about %d, %d, %v",
				c.name, arrived, twice, reordered, c.arrived, c.twice, c.reordered)
		}
		if latest < c.earliest || latest > c.latestAtMost {
			t.Errorf("%s: under way for up to %v, want %v to %v", c.name, latest, c.earliest, c.latestAtMost)
		}
	}
}
