// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// fast returns the profile of the documented throughput: the ratios of the LAN profile with
// an interval of 500 ms.
func fast() message.Timings {
	return message.Timings{
		HeartbeatInterval: 500 * time.Millisecond,
		HeartbeatTimeout:  2 * time.Second,
		LeaderTimeout:     5 * time.Second,
		LeaseTimeout:      5 * time.Second,
		TTLTimeout:        50 * time.Second,
		RetryInterval:     2500 * time.Millisecond,
	}
}

// depth returns a number of runs, and with -short an eighth of it. make full runs all.
func depth(full uint64) uint64 {
	if testing.Short() {
		return max(1, full/8)
	}
	return full
}

// steady returns the setup of a cluster with an ordinary network.
func steady(size int) Setup {
	return Setup{Seed: 1, Size: size, Timings: fast(), Link: Link{Delay: time.Millisecond}}
}

// formed starts all processes and waits until they have settled.
func formed(t *testing.T, s Setup) *Cluster {
	t.Helper()
	c := NewCluster(s)
	for i := range c.Processes() {
		c.Start(i)
	}
	if !c.RunUntil(s.Timings.TTLTimeout, c.Settled) {
		t.Fatalf("the cluster did not form: %v%s", c.Violation(), c.Describe())
	}
	return c
}

// sound fails the test if an invariant was violated.
func sound(t *testing.T, c *Cluster) {
	t.Helper()
	if v := c.Violation(); v != nil {
		t.Fatalf("%v%s", v, c.Describe())
	}
}

func TestIsolatedLeaderIsReplacedAndComesBack(t *testing.T) {
	c := formed(t, steady(5))
	old := c.Leader()
	version := c.Authority(old)
	c.Isolate(old)
	if !c.RunUntil(8*time.Second, func() bool { return c.Leader() >= 0 && c.Leader() != old }) {
		t.Fatalf("the leader was not replaced: %v%s", c.Violation(), c.Describe())
	}
	if got := c.Authority(c.Leader()); got <= version {
		t.Errorf("the next leader has version %d after %d", got, version)
	}
	leader := c.Leader()
	c.Heal()
	if !c.RunUntil(4*fast().HeartbeatInterval, c.Settled) || c.Leader() != leader {
		t.Errorf("the old leader did not rejoin quietly: %v%s", c.Violation(), c.Describe())
	}
	sound(t, c)
}

func TestMinorityHasNoAuthority(t *testing.T) {
	c := formed(t, steady(5))
	leader := c.Leader()
	side := []int{leader, (leader + 1) % 5}
	c.Split(side...)
	c.RunFor(30 * time.Second)
	for _, i := range side {
		if got := c.Authority(i); got != 0 {
			t.Errorf("%v in a minority has authority for version %d", c.Address(i), got)
		}
	}
	if l := c.Leader(); l < 0 || l == side[0] || l == side[1] {
		t.Errorf("the majority has the leader %d", l)
	}
	sound(t, c)
}

func TestPausedLeaderHasNoAuthorityWhenItWakes(t *testing.T) {
	for _, timersFirst := range []bool{true, false} {
		c := formed(t, steady(3))
		old := c.Leader()
		c.Pause(old)
		c.RunFor(20 * time.Second)
		if l := c.Leader(); l < 0 || l == old {
			t.Fatalf("a paused leader was not replaced: leader %d%s", l, c.Describe())
		}
		c.Resume(old, timersFirst)
		if got := c.Authority(old); got != 0 {
			t.Errorf("timers first %v: it woke with authority for version %d", timersFirst, got)
		}
		if !c.RunUntil(10*time.Second, c.Settled) {
			t.Errorf("timers first %v: it did not rejoin%s", timersFirst, c.Describe())
		}
		sound(t, c)
	}
}

func TestProcessRestartsWithAndWithoutItsStore(t *testing.T) {
	for _, volatile := range [][]int{nil, {0, 1, 2}} {
		s := steady(3)
		s.Volatile = volatile
		c := formed(t, s)
		i := (c.Leader() + 1) % 3
		before := c.Durable(i)
		c.Crash(i)
		if c.Up(i) || c.View(i).Role != member.Seeking || c.Authority(i) != 0 {
			t.Errorf("a crashed process is still up: %+v", c.View(i))
		}
		c.Start(i)
		if !c.RunUntil(2*fast().RetryInterval, c.Settled) {
			t.Errorf("volatile %v: not active again%s", volatile, c.Describe())
		}
		after := c.Durable(i)
		if (after.StoreID == before.StoreID) != (volatile == nil) ||
			after.Incarnation <= before.Incarnation {
			t.Errorf("volatile %v: run %d of store %v after %d of %v",
				volatile, after.Incarnation, after.StoreID, before.Incarnation, before.StoreID)
		}
		sound(t, c)
	}
}

// TestInterruptLosesAStep checks two crashes. A process that crashes before its step is saved has
// done nothing. A process that crashes after it has sent some messages sends no others.
func TestInterruptLosesAStep(t *testing.T) {
	for _, sent := range []int{-1, 0, 1} {
		c := formed(t, steady(3))
		i := (c.Leader() + 1) % 3
		c.Crash(c.Leader())
		before, messages := c.Durable(i), 0
		c.Interrupt = func(p int, out statemachine.Output) (int, bool) {
			if p != i || out.Persist == nil {
				return 0, false
			}
			messages = c.Messages().Sent
			return sent, true
		}
		if !c.RunUntil(20*time.Second, func() bool { return !c.Up(i) }) {
			t.Fatalf("sent %d: process %d saved nothing%s", sent, i, c.Describe())
		}
		if saved := c.Durable(i).Promised != before.Promised; saved != (sent >= 0) {
			t.Errorf("sent %d: saved %v", sent, saved)
		}
		if got := c.Messages().Sent - messages; got != max(sent, 0) {
			t.Errorf("sent %d: %d messages were sent", sent, got)
		}
		sound(t, c)
	}
}

func TestOperatorsVerbs(t *testing.T) {
	c := formed(t, steady(3))
	old := c.Leader()
	if err := c.Transfer((old+1)%3, -1); !errors.Is(err, statemachine.ErrNotLeader) {
		t.Errorf("Transfer at a follower: %v, want %v", err, statemachine.ErrNotLeader)
	}
	to := (old + 2) % 3
	if err := c.Transfer(old, to); err != nil {
		t.Errorf("Transfer at the leader: %v", err)
	}
	if !c.RunUntil(time.Second, func() bool { return c.Leader() == to }) {
		t.Errorf("leadership did not move to %d%s", to, c.Describe())
	}
	c.Drain(to)
	if !c.RunUntil(3*time.Second, func() bool { return c.Leader() >= 0 && c.Leader() != to }) {
		t.Errorf("a drained leader still leads%s", c.Describe())
	}
	c.Leave(to)
	if !c.RunUntil(5*time.Second, func() bool { return len(c.Stopped()) == 1 }) {
		t.Fatalf("process %d did not leave%s", to, c.Describe())
	}
	if s := c.Stopped()[0]; s.Process != to || !errors.Is(s.Err, statemachine.ErrLeft) {
		t.Errorf("stopped: %+v, want process %d with %v", s, to, statemachine.ErrLeft)
	}
	sound(t, c)
}

func TestLostDiskStartsWithJoinOnly(t *testing.T) {
	c := formed(t, steady(3))
	i := (c.Leader() + 1) % 3
	before := c.Durable(i).StoreID
	c.LoseDisk(i)
	if c.Durable(i).StoreID != before {
		t.Error("a running process lost its disk")
	}
	c.Crash(i)
	c.LoseDisk(i)
	c.Start(i)
	if !c.RunUntil(4*fast().RetryInterval, c.Settled) || c.Durable(i).StoreID == before {
		t.Errorf("it did not restart with another store%s", c.Describe())
	}
	sound(t, c)
}

func TestTwinTakesTheAddress(t *testing.T) {
	s := steady(3)
	s.Twins = []int{1}
	c := NewCluster(s)
	for i := range 3 {
		c.Start(i)
	}
	c.RunUntil(time.Minute, c.Settled)
	c.RunFor(time.Second)
	c.Start(3)
	if c.Address(3) != c.Address(1) {
		t.Fatalf("the twin has the address %v, want %v", c.Address(3), c.Address(1))
	}
	if !c.RunUntil(10*time.Minute, func() bool { return len(c.Stopped()) > 0 }) {
		t.Fatalf("two processes share an address%s", c.Describe())
	}
	if got := c.Stopped()[0]; got.Process != 1 || !errors.Is(got.Err, statemachine.ErrAddressInUse) {
		t.Errorf("stopped: %+v, want process 1 with %v", got, statemachine.ErrAddressInUse)
	}
	sound(t, c)
}

func TestRecordsDescribeEvents(t *testing.T) {
	seen := map[RecordKind]int{}
	s := steady(3)
	s.Codec = true
	s.Record = func(r Record) {
		seen[r.Kind]++
		if line := r.String(); len(line) < 20 {
			t.Errorf("a record reads %q", line)
		}
	}
	c := NewCluster(s)
	c.SlowSave = func(int) SlowSave { return SlowSave{Takes: time.Millisecond} }
	for i := range 3 {
		c.Start(i)
	}
	c.RunUntil(time.Minute, c.Settled)
	shorter := s.Timings
	shorter.LeaseTimeout /= 2
	c.Reconfigure(0, shorter, message.Timings{})
	c.Isolate(0)
	c.Pause(1)
	c.RunFor(time.Second)
	c.SetForward(1)
	c.Resume(1, true)
	c.Leave(2)
	c.RunFor(10 * time.Second)
	c.CopyDisk(2)
	c.LoseDisk(2)
	c.RestoreDisk(2)
	c.Crash(0)
	for w := Started; w < Phase; w++ {
		if seen[w] == 0 {
			t.Errorf("no record reads %q", w)
		}
	}
}

// TestRecordsNameProcesses checks that printed records name processes, and that a violation
// is marked as such.
func TestRecordsNameProcesses(t *testing.T) {
	var lines []string
	s := steady(3)
	s.Record = func(r Record) { lines = append(lines, r.String()) }
	c := formed(t, s)
	lines = nil
	c.cutPairs([]pair{{0, 2}, {1, 2}}, 1)
	c.cutPairs([]pair{{0, 2}, {1, 2}}, -1)
	c.noteRun(Phase, "disturbs %v", processNames{0, 2})
	c.noteRun(Broke, "%v", &Violation{Invariant: "I2", Text: "two lead"})
	for i, want := range []string{
		" -    network   cuts n01 to n03, n02 to n03", " -    network   heals n01 to n03, n02 to n03",
		" -    phase     disturbs n01, n03", " -    broke     I2 at 0s: two lead",
	} {
		if i >= len(lines) || !strings.HasSuffix(lines[i], want) {
			t.Errorf("records %q, want line %d to end with %q", lines, i+1, want)
		}
	}
}

// TestResultListsWhatHappened checks that a result lists only the faults that happened, and not
// every drawn fault.
func TestResultListsWhatHappened(t *testing.T) {
	_, r := Capture(Options{Seed: 1, Size: 3, For: time.Minute})
	r.Plan.Faults, r.Plan.Setup.Link.Loss, r.Faults, r.Fates = AllFaults, 0.1, nil, nil
	r.Plan.Setup.Skew, r.Plan.Setup.Link.Unordered, r.Plan.Setup.Link.Late = false, false, 0.1
	r.Plan.Setup.Workers = 0
	if got := Reproduce(r, nil).String(); !strings.HasSuffix(got, ", faults: none") {
		t.Errorf("run without faults: %s", got)
	}
	r.Faults = []Fault{{At: int64(20 * time.Second), Class: Crashes, Lasts: int64(time.Second)}}
	if got := Reproduce(r, nil).String(); !strings.HasSuffix(got, ", faults: crashes 1") {
		t.Errorf("run with one crash: %s", got)
	}
}

func TestSetupMustMakeSense(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("NewCluster accepted a cluster without members")
		}
	}()
	NewCluster(Setup{Timings: fast()})
}

// BenchmarkSimulation measures how much faster than real time N processes run in the fast
// profile, with the checkers but without faults.
func BenchmarkSimulation(b *testing.B) {
	for _, codec := range []bool{false, true} {
		b.Run(fmt.Sprintf("N=5/codec=%v", codec), func(b *testing.B) {
			s := steady(5)
			s.Codec = codec
			c := NewCluster(s)
			for i := range 5 {
				c.Start(i)
			}
			c.RunFor(time.Minute)
			for b.Loop() {
				c.RunFor(time.Second)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "x-real-time")
		})
	}
}
