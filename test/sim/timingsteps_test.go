// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
)

// walk is a cluster whose processes are in different steps of a change of timings.
type walk struct {
	*Cluster
	t         *testing.T
	old, next message.Timings
	who       []int // the processes: the leader, and those after it
}

// walked forms a cluster in one step, and moves each process but the leader along its path. Hosts
// refuse packets, so that followers miss a leader that is cut off as soon as an ack is late.
func walked(t *testing.T, old, next message.Timings, from int, paths ...[]int) *walk {
	t.Helper()
	s := steady(1 + len(paths))
	s.Timings, _ = setsOf(from, old, next)
	for i := range s.Size {
		s.Rejects = append(s.Rejects, i)
	}
	w := &walk{NewCluster(s), t, old, next, nil}
	for i := range w.procs {
		_, w.procs[i].cfg.OtherTimings = setsOf(from, old, next)
		w.Start(i)
	}
	if !w.RunUntil(old.Longer(next).TTLTimeout, w.Settled) {
		t.Fatalf("the cluster did not form: %v%s", w.Violation(), w.Describe())
	}
	for i := range w.procs {
		w.who = append(w.who, (w.Leader()+i)%s.Size)
	}
	for i, path := range paths {
		w.move(w.who[i+1], path...)
	}
	if w.Leader() != w.who[0] {
		t.Fatalf("n%d does not lead%s", w.who[0]+1, w.Describe())
	}
	return w
}

// move moves a process to the given steps, and lets the others notice.
func (w *walk) move(i int, path ...int) {
	for _, step := range path {
		own, other := setsOf(step, w.old, w.next)
		w.Reconfigure(i, own, other)
		w.RunUntil(time.Minute, func() bool { return w.Up(i) })
		w.RunFor(w.old.Longer(w.next).LeaderTimeout)
	}
}

// separate holds back all messages between the given processes and the others to the end of the
// test.
func (w *walk) separate(side ...int) { w.separateFor(5*time.Minute, side...) }

// separateFor holds back all messages between the given processes and the others for d. Probes
// still reach the hosts.
func (w *walk) separateFor(d time.Duration, side ...int) {
	for a := range w.procs {
		for b := range w.procs {
			if slices.Contains(side, a) != slices.Contains(side, b) {
				w.Hold(a, b, d)
			}
		}
	}
}

// acquire makes a process acquire the record.
func (w *walk) acquire(i int) {
	w.t.Helper()
	w.take(i, "k")
	if !w.RunUntil(w.old.HeartbeatTimeout, func() bool { return !w.Holds(i, "k").IsZero() }) {
		w.t.Fatalf("n%d does not own the record%s", i+1, w.Describe())
	}
}

// contest lets processes request the record for a time. One of them must lead and acquire it.
func (w *walk) contest(d time.Duration, among ...int) {
	w.t.Helper()
	led, owned := false, false
	for end := w.Now() + d; w.Now() < end && w.Violation() == nil && !(led && owned); {
		w.RunFor(w.old.HeartbeatInterval / 10)
		for _, i := range among {
			led = led || w.Leader() == i
			owned = owned || !w.Holds(i, "k").IsZero()
			if w.Up(i) && !owned {
				w.take(i, "k")
			}
		}
	}
	sound(w.t, w.Cluster)
	if !led || !owned {
		w.t.Fatalf("led: %t, owned: %t: the test proves nothing%s", led, owned, w.Describe())
	}
}

// leases returns timings with the given lease and leader timeout.
func leases(lease, leader time.Duration) message.Timings {
	t := fast()
	t.LeaseTimeout, t.LeaderTimeout, t.TTLTimeout = lease, leader, 10*time.Minute
	return t
}

const second = time.Second

var longLease, shortLease = leases(5*second, 5*second), leases(2*second, 5*second)

// TestFollowersSupportForTheLongerLease tests protocol.md section 8. The leader has the longer
// lease, its followers have the shorter one, and each side accepts both.
func TestFollowersSupportForTheLongerLease(t *testing.T) {
	path := []int{newAcceptsOld}
	w := walked(t, longLease, shortLease, oldAcceptsNew, path, path)
	w.separate(w.who[0])
	w.contest(time.Minute, w.who[1:]...)
}

// TestALeaderTrustsItsOwnLease tests protocol.md section 8. The leader has the shorter lease and
// accepts the longer one. Its followers accept only the shorter one.
func TestALeaderTrustsItsOwnLease(t *testing.T) {
	path := []int{newOnly}
	w := walked(t, longLease, shortLease, newAcceptsOld, path, path)
	w.separate(w.who[0])
	w.contest(time.Minute, w.who[1:]...)
}

// TestARestartedVoterWaitsForTheLongerLease tests protocol.md section 8. The followers with the
// shorter lease restart while the leader, which has the longer one, is cut off.
func TestARestartedVoterWaitsForTheLongerLease(t *testing.T) {
	path := []int{newAcceptsOld}
	w := walked(t, longLease, shortLease, oldAcceptsNew, path, path)
	w.separate(w.who[0])
	w.Restart(w.who[1])
	w.Restart(w.who[2])
	w.contest(time.Minute, w.who[1:]...)
}

// TestARunOwesTheLongerLease tests protocol.md section 8. The followers stop accepting the longer
// lease, which the leader still has.
func TestARunOwesTheLongerLease(t *testing.T) {
	path := []int{newAcceptsOld}
	w := walked(t, longLease, shortLease, oldAcceptsNew, path, path)
	for _, i := range w.who[1:] {
		w.Reconfigure(i, shortLease, message.Timings{})
	}
	w.contest(time.Minute, w.who[1:]...)
}

// TestAFormerLeaderIsWaitedForByTheLongerLease tests protocol.md section 8. The leader has the
// longer lease and a record of its own. Its followers have the shorter lease.
func TestAFormerLeaderIsWaitedForByTheLongerLease(t *testing.T) {
	path := []int{newAcceptsOld}
	w := walked(t, leases(10*second, 10*second), leases(2*second, 10*second), oldAcceptsNew,
		path, path)
	w.acquire(w.who[0])
	w.RunFor(time.Minute)
	w.separate(w.who[0])
	w.contest(time.Minute, w.who[1:]...)
}

var longHold, shortHold = leases(2*second, 20*second), leases(2*second, 2*second)

// divide cuts the leader and the next process off from the three others. Only the last one of these
// stands for election at first. Then all three request the record.
func (w *walk) divide() {
	w.t.Helper()
	w.Drain(w.who[2])
	w.Drain(w.who[3])
	w.RunFor(w.old.HeartbeatInterval)
	w.separate(w.who[:2]...)
	w.contest(2*time.Minute, w.who[2:]...)
}

// TestALeaderDropsAfterTheLongerHold tests protocol.md section 8. The next leader has the shorter
// hold timeout and accepts the longer one, which the owner and the first leader have.
func TestALeaderDropsAfterTheLongerHold(t *testing.T) {
	w := walked(t, longHold, shortHold, oldOnly,
		nil, []int{oldAcceptsNew}, []int{oldAcceptsNew}, []int{oldAcceptsNew, newAcceptsOld})
	w.acquire(w.who[1])
	w.divide()
}

// TestALeaderExtendsForTheShorterHold tests protocol.md section 8. The next leader accepts only the
// shorter hold timeout, the owner only the longer one, and the first leader both.
func TestALeaderExtendsForTheShorterHold(t *testing.T) {
	w := walked(t, longHold, shortHold, oldAcceptsNew, []int{oldOnly},
		[]int{newAcceptsOld}, []int{newAcceptsOld}, []int{newAcceptsOld, newOnly})
	w.acquire(w.who[1])
	w.divide()
}

// TestALeaderTrustsItselfForTheShorterHold tests protocol.md section 8. The leader owns a record,
// and its lease is longer than the hold timeout of the next leader.
func TestALeaderTrustsItselfForTheShorterHold(t *testing.T) {
	w := walked(t, leases(10*second, 10*second), shortHold, oldAcceptsNew, nil,
		[]int{newAcceptsOld}, []int{newAcceptsOld}, []int{newAcceptsOld, newOnly})
	w.acquire(w.who[0])
	w.divide()
}

// TestEachSideAcceptsTheTimings tests protocol.md section 8. The followers of a leader with the
// longer lease, who accepts the shorter one too, come to accept only the shorter one.
func TestEachSideAcceptsTheTimings(t *testing.T) {
	w := walked(t, shortLease, longLease, newAcceptsOld, nil, nil)
	leader := w.who[0]
	w.move(w.who[1], oldOnly)
	w.move(w.who[2], oldOnly)
	w.separate(leader)
	w.contest(time.Minute, w.who[1:]...)
}

// TestVotesStayUntilEarlierTrustEnds tests protocol.md section 8. An owner was extended by a leader
// with the longer hold timeout only. Under the next leader, which accepts both, two voters come
// with new stores and the shorter hold timeout. One of them leads, and hands over to a member that
// accepts no other. That member does not know the new stores, and votes for one of them only
// because it has had no leader for its TTLTimeout.
func TestVotesStayUntilEarlierTrustEnds(t *testing.T) {
	accepts, short := []int{oldAcceptsNew}, shortHold
	short.TTLTimeout = 20 * second
	w := walked(t, longHold, short, oldOnly,
		accepts, nil, accepts, []int{oldAcceptsNew, newAcceptsOld, newOnly})
	first, next, owner, voter, last := w.who[0], w.who[1], w.who[2], w.who[3], w.who[4]
	w.Drain(owner)
	w.Drain(voter)
	w.acquire(owner)
	w.RunFor(w.old.HeartbeatInterval)
	w.separateFor(3*second, first)
	if !w.RunUntil(time.Minute, func() bool { return w.Leader() == next }) {
		t.Fatalf("n%d does not lead%s", next+1, w.Describe())
	}
	for _, i := range []int{voter, first} {
		w.Crash(i)
		w.LoseDisk(i)
		w.Reconfigure(i, short, longHold)
		w.Start(i)
		if !w.RunUntil(2*time.Minute, func() bool { return w.hasVote(w.procs[i]) }) {
			t.Fatalf("n%d gets no vote%s", i+1, w.Describe())
		}
	}
	w.separate(next, owner)
	led := func() bool { return w.Leader() == voter || w.Leader() == first }
	if !w.RunUntil(2*time.Minute, led) {
		t.Fatalf("neither new store leads%s", w.Describe())
	}
	w.RunFor(second)
	if err := w.Transfer(w.Leader(), last); err != nil {
		t.Fatal(err)
	}
	w.contest(2*time.Minute, last)
}

// TestTimingsChangeInSteps checks that a planned change of timings, node by node, leaves the
// cluster without a leader for at most 50 ms, and that no owner of a record loses it.
func TestTimingsChangeInSteps(t *testing.T) {
	lan, local := leases(3500*time.Millisecond, 5*second), message.Timings{
		HeartbeatInterval: 100 * time.Millisecond, HeartbeatTimeout: 400 * time.Millisecond,
		LeaderTimeout: second, LeaseTimeout: 700 * time.Millisecond,
		TTLTimeout: 10 * second, RetryInterval: 500 * time.Millisecond,
	}
	for _, sets := range [][2]message.Timings{{lan, local}, {local, lan}} {
		w := walked(t, sets[0], sets[1], oldOnly, nil, nil)
		longest := time.Duration(0)
		for step := oldAcceptsNew; step <= newOnly; step++ {
			for _, i := range w.who {
				longest = max(longest, w.restartPlanned(i, step))
			}
		}
		sound(t, w.Cluster)
		if longest > 50*time.Millisecond {
			t.Errorf("no leader for %v, want at most 50ms", longest)
		}
	}
}

// restartPlanned moves a process to a step after it has handed over, and returns the longest time
// without a leader. Another process owns the record meanwhile.
func (w *walk) restartPlanned(i, step int) (longest time.Duration) {
	w.t.Helper()
	owner := (i + 1) % w.setup.Size
	w.acquire(owner)
	token := w.Holds(owner, "k")
	own, other := setsOf(step, w.old, w.next)
	led := w.Now()
	run := func(d time.Duration) {
		for end := w.Now() + d; w.Now() < end; w.RunFor(time.Millisecond) {
			if w.Leader() >= 0 {
				led = w.Now()
			}
			longest = max(longest, w.Now()-led)
			if w.Holds(owner, "k") != token {
				w.t.Fatalf("n%d lost the record in step %d of n%d%s", owner+1, step, i+1, w.Describe())
			}
		}
	}
	if w.Leader() == i {
		if err := w.Transfer(i, -1); err != nil {
			w.t.Fatal(err)
		}
		run(w.old.Shorter(w.next).HeartbeatInterval / 2)
	}
	w.Reconfigure(i, own, other)
	for !w.Up(i) || !w.Settled() {
		run(time.Millisecond)
	}
	run(w.old.Longer(w.next).LeaseTimeout)
	w.Commit(owner, message.RecordRequest{Changes: []message.Change{{Key: "k", Drop: true}}})
	w.RunFor(w.old.Longer(w.next).HeartbeatInterval)
	return longest
}
