// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/programs"
)

// inMemory runs a test with a table in memory.
func inMemory(t *testing.T, test func(*testing.T, *record.Memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, record.NewMemory()) })
}

// join opens the job of most tests.
func join(t *testing.T, m *record.Memory, id string) *election.Job {
	t.Helper()
	return open(t, m.Store(id), "job", election.JobOptions{})
}

// enable enables or disables a member of a job.
func enable(t *testing.T, j *election.Job, id string, on bool) {
	t.Helper()
	if err := j.Enable(t.Context(), id, on); err != nil {
		t.Fatalf("Enable %s, %v: %v", id, on, err)
	}
	synctest.Wait()
}

// isLed fails the test if j does not see the wanted leader.
func isLed(t *testing.T, j *election.Job, want string) {
	t.Helper()
	synctest.Wait()
	if by, _ := j.Leader(); by.ID != want {
		t.Errorf("led by %q, want %q", by.ID, want)
	}
}

func TestL08OtherRecordsMeanNothing(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		a := join(t, m, "a")
		leads(t, a, true)
		counts := Count(m.Store("b"))
		b := open(t, counts, "job", election.JobOptions{})
		other := m.Store("c").Session(nil)
		for _, key := range []string{"latch/job/other", "latch/job2/leader", "latch/jo/leader"} {
			for _, kind := range []record.Kind{record.Set, record.Drop} {
				if _, err := other.Commit(t.Context(), record.Op{Kind: kind, Key: key}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
			}
		}
		leads(t, b, false)
		isLed(t, b, "a")
		if got := counts.Commits(); got != 0 {
			t.Errorf("%d commits, want none", got)
		}
	})
}

func TestL09NobodyMayLead(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		a, b := join(t, m, "a"), join(t, m, "b")
		enable(t, b, "a", false)
		enable(t, a, "b", false)
		time.Sleep(10 * time.Second)
		if a.IsLeader() || b.IsLeader() {
			t.Error("a disabled member leads")
		}
		if by, ok := a.Leader(); ok {
			t.Errorf("Leader: got %+v, want none", by)
		}
	})
}

func TestL11FollowerIsDisabled(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		var x Exclusive
		a := join(t, m, "a")
		led := work(t, &x, a).next(t)
		b := join(t, m, "b")
		enable(t, b, "b", false)
		enable(t, b, "b", false) // the second time has no effect
		time.Sleep(10 * time.Second)
		if led.ctx.Err() != nil {
			t.Errorf("the leader ended with %v", context.Cause(led.ctx))
		}
		isLed(t, b, "a")
	})
}

func TestL12Enabled(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		var x Exclusive
		a := join(t, m, "a")
		led := work(t, &x, a).next(t)
		b := open(t, m.Store("b"), "job", election.JobOptions{Disabled: true})
		enable(t, b, "b", true)
		time.Sleep(10 * time.Second)
		isLed(t, b, "a")
		enable(t, b, "b", false)
		enable(t, b, "a", false)
		led.ends(t, leader.ErrDisabled)
		time.Sleep(10 * time.Second)
		if by, ok := b.Leader(); ok {
			t.Errorf("Leader: got %+v, want none", by)
		}
		enable(t, a, "b", true)
		leads(t, b, true)
	})
}

func TestL14OneOfAllIsEnabled(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		var jobs []*election.Job
		for _, id := range []string{"a", "b", "c"} {
			jobs = append(jobs, open(t, m.Store(id), "job", election.JobOptions{Disabled: true}))
		}
		time.Sleep(10 * time.Second)
		enable(t, jobs[0], "c", true)
		leads(t, jobs[2], true)
		leads(t, jobs[0], false)
	})
}

func TestL15IdsAreMatchedWhole(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		long := join(t, m, "10.0.0.12")
		enable(t, long, "10.0.0.1", false)
		leads(t, long, true)
		// If 10.0.0.1 is disabled, 10.0.0.12 is not: the whole name must match.
		enable(t, long, "10.0.0.1", true)
		enable(t, long, "10.0.0.12", false)
		leads(t, long, false)
	})
}

func TestL19Close(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		var x Exclusive
		a := join(t, m, "a")
		const lasts = 3 * time.Second
		w := workWith(t, &x, a, func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(lasts)
		})
		led := w.next(t)
		done := make(chan error)
		before := time.Now()
		go func() { done <- a.Close(t.Context()) }() // both return alike
		if err := a.Close(t.Context()); err != nil || time.Since(before) != lasts {
			t.Errorf("Close: %v after %v, want it to wait for the work", err, time.Since(before))
		}
		led.ends(t, leader.ErrClosed)
		if err := <-done; err != nil {
			t.Errorf("the other Close: %v", err)
		}
		if r, err := m.Store("b").List(t.Context(), "latch/"); err != nil || len(r) != 0 {
			t.Errorf("left behind: %+v, %v", r, err)
		}
		w.idle(t, 10*time.Second)
	})
}

func TestL20CallsAfterClose(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		a := join(t, m, "a")
		for range 2 {
			closeJob(t, a)
		}
		ctx := t.Context()
		if by, ok := a.Leader(); ok || a.IsLeader() {
			t.Errorf("a closed job is led by %+v", by)
		}
		_, waited := a.WaitLeader(ctx)
		work := func(context.Context, leader.Term) error { return nil }
		for name, err := range map[string]error{
			"WaitLeader": waited, "Resign": a.Resign(ctx), "Enable": a.Enable(ctx, "a", true),
			"Do": a.Do(ctx, work), "WhileLeader": a.WhileLeader(ctx, work),
		} {
			if !errors.Is(err, leader.ErrClosed) {
				t.Errorf("%s: got %v, want ErrClosed", name, err)
			}
		}
	})
}

// deaf is a Store whose watches never report a change.
type deaf struct{ record.Store }

func (deaf) Watch(ctx context.Context, _ string) <-chan struct{} {
	never := make(chan struct{})
	context.AfterFunc(ctx, func() { close(never) })
	return never
}

// gap is a Store whose watches end immediately.
type gap struct{ record.Store }

func (gap) Watch(context.Context, string) <-chan struct{} {
	over := make(chan struct{})
	close(over)
	return over
}

func TestL24EveryEventIsLost(t *testing.T) {
	for _, lose := range []func(record.Store) record.Store{
		func(s record.Store) record.Store { return deaf{s} },
		func(s record.Store) record.Store { return gap{s} },
	} {
		inMemory(t, func(t *testing.T, m *record.Memory) {
			a := open(t, lose(m.Store("a")), "job", election.JobOptions{})
			leads(t, a, true)
			b := open(t, lose(m.Store("b")), "job", election.JobOptions{})
			leads(t, b, false)
			m.Cut("a")
			time.Sleep(3 * time.Second)
			leads(t, b, true)
		})
	}
}

// unsure is a Store whose first commits have an unknown outcome.
type unsure struct {
	record.Store
	left  *atomic.Int64 // number of commits with an unknown outcome
	taken bool          // whether these commits take effect
}

func (u unsure) Session(lost record.LostFunc) record.Session {
	return unsureSession{u.Store.Session(lost), u}
}

type unsureSession struct {
	record.Session
	unsure
}

func (s unsureSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	if s.left.Add(-1) < 0 {
		return s.Session.Commit(ctx, ops...)
	}
	if s.taken {
		if _, err := s.Session.Commit(ctx, ops...); err != nil {
			return member.Token{}, err
		}
	}
	return member.Token{}, record.ErrUnknownOutcome
}

func TestL25UnknownOutcome(t *testing.T) {
	for _, taken := range []bool{true, false} {
		inMemory(t, func(t *testing.T, m *record.Memory) {
			var x, y Exclusive
			left := &atomic.Int64{}
			s := unsure{m.Store("a"), left, taken}
			left.Store(1)
			a := open(t, s, "job", election.JobOptions{})
			work(t, &x, a).next(t)
			held := lockOf(t, s)
			left.Store(1)
			for range 2 {
				err := held.Do(t.Context(), func(ctx context.Context, term leader.Term) error {
					left.Store(1) // the release
					return y.EnterTerm(ctx, term)
				})
				if err != nil {
					t.Error(err)
				}
			}
			if err := lockOf(t, m.Store("b")).Do(t.Context(), y.EnterTerm); err != nil {
				t.Error(err)
			}
			left.Store(1)
			enable(t, a, "b", false)
			if r, err := s.List(t.Context(), "latch/job/"); err != nil || len(r) != 2 {
				t.Errorf("got %+v, %v, want the leader and the disabled member", r, err)
			}
			left.Store(1)
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if r, err := s.List(t.Context(), "latch/job/leader"); err != nil || len(r) != 0 {
				t.Errorf("left behind: %+v, %v", r, err)
			}
		})
	}
}

// slow is a Store that makes commits in the order of the calls, each after a delay, even if
// the caller has given up.
type slow struct {
	record.Store
	queue *queue
}

// queue is the order of commits.
type queue struct {
	mu   sync.Mutex
	last <-chan struct{} // closed at the end of the newest commit; nil before the first
}

// joinQueue returns a channel that is closed at the end of the commit before, or nil.
func (q *queue) joinQueue(end <-chan struct{}) (before <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, q.last = q.last, end
	return before
}

const slowness = 10 * time.Millisecond

func (s slow) Session(lost record.LostFunc) record.Session {
	return slowSession{s.Store.Session(lost), s}
}

type slowSession struct {
	record.Session
	slow
}

func (s slowSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	made := make(chan struct{})
	var token member.Token
	var err error
	before := s.queue.joinQueue(made)
	go func() {
		defer close(made)
		if before != nil {
			<-before
		}
		time.Sleep(slowness)
		token, err = s.Session.Commit(context.Background(), ops...)
	}()
	select {
	case <-made:
		return token, err
	case <-ctx.Done():
		return member.Token{}, fmt.Errorf("%w: %w", record.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// TestL25CallerGoesWhileItGetsALatch checks that a caller that gives up at any moment
// leaves no record behind, even if the job is closed immediately.
func TestL25CallerGoesWhileItGetsALatch(t *testing.T) {
	for at := time.Duration(1); at < 4*slowness; at += slowness / 4 {
		inMemory(t, func(t *testing.T, m *record.Memory) {
			a := lockOf(t, slow{m.Store("a"), new(queue)})
			ctx, stop := context.WithTimeout(t.Context(), at)
			defer stop()
			_ = a.Do(ctx, func(context.Context, leader.Term) error { return nil })
			if err := a.Close(t.Context()); err != nil {
				t.Errorf("gone after %v: Close: %v", at, err)
			}
			time.Sleep(time.Second)
			r, err := m.Store("b").List(t.Context(), "latch/job/")
			if err != nil || len(r) != 0 {
				t.Errorf("gone after %v: left behind: %+v, %v", at, r, err)
			}
		})
	}
}

// late is a Store that shows an earlier state.
type late struct {
	record.Store
	mu   sync.Mutex
	seen []sight
}

type sight struct {
	at      time.Time
	records []member.Record
}

const lateness = 50 * time.Millisecond

func (l *late) List(ctx context.Context, prefix string) ([]member.Record, error) {
	all, err := l.Store.List(ctx, "")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, sight{time.Now(), all})
	var then []member.Record
	for _, s := range l.seen {
		if time.Since(s.at) >= lateness {
			then = s.records
		}
	}
	return slices.DeleteFunc(slices.Clone(then), func(r member.Record) bool {
		return !strings.HasPrefix(r.Key, prefix)
	}), err
}

// TestL19CloseSeesNothingYet checks that Close leaves no record behind, even if the member
// has not seen its record yet.
func TestL19CloseSeesNothingYet(t *testing.T) {
	for at := time.Duration(0); at < 2*lateness; at += lateness / 5 {
		inMemory(t, func(t *testing.T, m *record.Memory) {
			a := open(t, &late{Store: slow{m.Store("a"), new(queue)}}, "job",
				election.JobOptions{})
			ctx, stop := context.WithTimeout(t.Context(), at)
			defer stop()
			held := lockOf(t, &late{Store: slow{m.Store("a"), new(queue)}})
			_ = held.Do(ctx, func(ctx context.Context, _ leader.Term) error {
				<-ctx.Done()
				return nil
			})
			for _, err := range []error{held.Close(t.Context()), a.Close(t.Context())} {
				if err != nil {
					t.Errorf("after %v: Close: %v", at, err)
				}
			}
			time.Sleep(time.Second)
			r, err := m.Store("b").List(t.Context(), "latch/job/")
			if err != nil || len(r) != 0 {
				t.Errorf("after %v: left behind: %+v, %v", at, r, err)
			}
		})
	}
}

// A member disables another member and enables it again before it can see the change.
func TestL12EnabledAtOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		s := &late{Store: m.Store("a")}
		for i := range 6 {
			on := i%2 == 1
			if err := election.EnableJob(t.Context(), s, "job", "b", on); err != nil {
				t.Fatal(err)
			}
			r, err := m.Store("c").List(t.Context(), "latch/job/disabled/b")
			if err != nil || (len(r) == 0) != on {
				t.Errorf("Enable %v: got %+v, %v", on, r, err)
			}
		}
	})
}

// A leader finds unfinished work by itself, without an event about it.
func TestL29WorkIsLeftBehind(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		var x Exclusive
		var mu sync.Mutex
		begun, ended := []int{}, []int{} // stands for external storage
		begin := func(i int) bool {
			mu.Lock()
			defer mu.Unlock()
			if slices.Contains(ended, i) {
				return false
			}
			begun = append(begun, i)
			return true
		}
		step := func(ctx context.Context) {
			for _, i := range []int{1, 2, 3} {
				if !begin(i) {
					continue
				}
				select {
				case <-time.After(time.Second):
					mu.Lock()
					ended = append(ended, i)
					mu.Unlock()
				case <-ctx.Done():
					return
				}
			}
			<-ctx.Done()
		}
		workWith(t, &x, join(t, m, "a"), step).next(t)
		b := workWith(t, &x, join(t, m, "b"), step)
		time.Sleep(1500 * time.Millisecond) // within the second
		m.Cut("a")
		b.next(t)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if want := []int{1, 2, 2, 3}; !slices.Equal(begun, want) || !slices.Equal(ended, []int{1, 2, 3}) {
			t.Errorf("began %v and ended %v, want to begin %v", begun, ended, want)
		}
	})
}

// Resign lets others lead first; if there is no other, the member soon leads again.
func TestResignLetsOthersLead(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		var x Exclusive
		a, b := join(t, m, "a"), join(t, m, "b")
		led := make(chan string, 10_000)
		for id, j := range map[string]*election.Job{"a": a, "b": b} {
			workWith(t, &x, j, func(ctx context.Context) {
				led <- id
				time.Sleep(time.Millisecond)
				_ = j.Resign(ctx) // fails when its context ends
			})
		}
		time.Sleep(10 * time.Second)
		closeJob(t, b)
		n, last := len(led), ""
		for range n {
			id := <-led
			if id == last {
				t.Errorf("%s led twice on end", id)
			}
			last = id
		}
		time.Sleep(10 * time.Second)
		if n < 20 || len(led) < 20 {
			t.Errorf("%d leaderships of two in 10 s, then %d of one, want some", n, len(led))
		}
		closeJob(t, a)
	})
}

// A member that only lists records, acquires locks and enables members never tries to lead.
func TestNoCandidate(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		var x Exclusive
		s := Count(m.Store("a"))
		time.Sleep(10 * time.Second)
		b := join(t, m, "b")
		becomesLeader(t, b)
		if err := lockOf(t, s).Do(t.Context(), x.EnterTerm); err != nil {
			t.Errorf("Do: %v", err)
		}
		if err := election.EnableJob(t.Context(), s, "job", "b", false); err != nil {
			t.Errorf("EnableJob: %v", err)
		}
		time.Sleep(10 * time.Second)
		if by, ok := b.Leader(); ok {
			t.Errorf("led by %+v, want none", by)
		}
		if got := s.Commits(); got != 3 {
			t.Errorf("%d commits, want those of the lock, its release and the disabling", got)
		}
	})
}

// Work that panics, ends its goroutine, or resigns with its own context counts as returned.
func TestWorkThatDoesNotReturnYields(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		a, b := join(t, m, "a"), join(t, m, "b")
		leads(t, b, false)
		for i, end := range []func(context.Context){
			func(context.Context) { panic("of the work") },
			func(context.Context) { runtime.Goexit() },
			func(ctx context.Context) {
				if err := a.Resign(ctx); !errors.Is(err, leader.ErrResigned) {
					t.Errorf("Resign: got %v, want the end of its context", err)
				}
			},
		} {
			programs.Pause(t, time.Second) // wait until all members see the leader
			var x Exclusive
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				_ = a.WhileLeader(ctx, func(ctx context.Context, _ leader.Term) error {
					defer stop()
					end(ctx)
					return nil
				})
			}()
			<-ended
			at := time.Now()
			w := work(t, &x, b)
			if took := w.next(t).at.Sub(at); took > time.Second {
				t.Errorf("case %d: another leads after %v", i, took)
			}
			programs.Pause(t, time.Second) // until all see the leader, so that the order is fixed
			w.giveUp(t)
			becomesLeader(t, a)
		}
	})
}

func TestWhileLeaderRunsOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		var x Exclusive
		a := join(t, m, "a")
		w := work(t, &x, a)
		w.next(t)
		err := a.WhileLeader(t.Context(), func(context.Context, leader.Term) error { return nil })
		if !errors.Is(err, leader.ErrRunning) {
			t.Errorf("got %v, want ErrRunning", err)
		}
		w.stop()
		if err := <-w.done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		work(t, &x, a).next(t) // and again
	})
}

// A call that waits for a lock can be canceled and leaves no record behind.
func TestDoIsGivenUp(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		var x Exclusive
		a, b := lockOf(t, m.Store("a")), lockOf(t, m.Store("b"))
		_ = a.Do(t.Context(), func(ctx context.Context, term leader.Term) error {
			for _, l := range []*lock.Lock{a, b} { // the holder may also wait for its own lock
				within, stop := context.WithTimeout(t.Context(), time.Second)
				err := l.Do(within, x.EnterTerm)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the end of the context", err)
				}
				stop()
			}
			return x.EnterTerm(ctx, term)
		})
		if err := b.Do(t.Context(), x.EnterTerm); err != nil {
			t.Error(err)
		}
		want := errors.New("of the work")
		fails := func(context.Context, leader.Term) error { return want }
		if err := b.Do(t.Context(), fails); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if r, err := m.Store("a").List(t.Context(), "latch/job/latch/"); err != nil || len(r) != 0 {
			t.Errorf("left behind: %+v, %v", r, err)
		}
	})
}

func TestNames(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		for _, name := range []string{"", "a/b", "a\n", fmt.Sprintf("%0256d", 0)} {
			_, err := election.OpenJob(t.Context(), m.Store("a"), name, election.JobOptions{})
			if err == nil {
				t.Errorf("the job %q was opened", name)
			}
		}
		a := join(t, m, "a")
		for _, name := range []string{"", "a\n", fmt.Sprintf("%0256d", 0)} {
			if _, err := lock.New(m.Store("a"), "job/"+name); err == nil {
				t.Errorf("the lock %q was made", name)
			}
			if a.Enable(t.Context(), name, true) == nil {
				t.Errorf("the member %q was enabled", name)
			}
		}
	})
}

// unaware is a Store that does not show disabled members.
type unaware struct{ record.Store }

func (u unaware) List(ctx context.Context, prefix string) ([]member.Record, error) {
	r, err := u.Store.List(ctx, prefix)
	return slices.DeleteFunc(r, func(r member.Record) bool {
		return strings.Contains(r.Key, "/disabled/")
	}), err
}

// Rule R13: the commit that makes a member the leader checks that it is enabled.
func TestDisabledAndUnaware(t *testing.T) {
	inMemory(t, func(t *testing.T, m *record.Memory) {
		b := open(t, m.Store("b"), "job", election.JobOptions{Disabled: true})
		enable(t, b, "a", false)
		a := open(t, unaware{m.Store("a")}, "job", election.JobOptions{})
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if by, err := a.WaitLeader(ctx); !errors.Is(err, record.ErrConflict) {
			t.Errorf("got %+v, %v, want the conflict", by, err)
		}
	})
}
