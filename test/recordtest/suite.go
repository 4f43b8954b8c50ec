// SPDX-License-Identifier: Apache-2.0

// Package recordtest tests stores of package record: Suite runs the scenarios of jobs and
// locks that every store must pass. The scenarios are numbered L01, L02 and so on.
package recordtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/programs"
)

// Members is the number of members that Suite needs.
const Members = 3

// SuiteLease is a lease timeout for the members of Suite: no scenario waits until a lease expires,
// and none expires on a busy machine.
const SuiteLease = 30 * time.Second

// Suite runs each scenario as a subtest. The function in must start Members new members, call test
// once with their stores, and return after test has returned.
func Suite(t *testing.T, in func(t *testing.T, test func(*testing.T, []record.Store))) {
	for _, s := range []struct {
		name string
		test func(*testing.T, []record.Store)
	}{
		{"L01TenContenders", tenContenders},
		{"L02LateContenderWritesNothing", lateContender},
		{"L07RecordDroppedByHand", dropped},
		{"L10HolderIsDisabled", holderIsDisabled},
		{"L13OpenedDisabled", openedDisabled},
		{"L17IsLeader", isLeader},
		{"L18ResignWithAnOldToken", oldToken},
		{"L24ChangesAreSeen", changesAreSeen},
		{"L30AllOrNothing", allOrNothing},
		{"L31CommitInVainEndsNothing", inVain},
	} {
		t.Run(s.name, func(t *testing.T) { in(t, s.test) })
	}
}

// open opens a job until the end of the test.
func open(t *testing.T, s record.Store, job string, o election.JobOptions) *election.Job {
	t.Helper()
	j, err := election.OpenJob(t.Context(), s, job, o)
	if err != nil {
		t.Fatalf("OpenJob: %v", err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer stop()
		// Without a majority, Close cannot drop the record.
		if err := j.Close(ctx); err != nil && !errors.Is(err, record.ErrNoQuorum) {
			t.Errorf("Close: %v", err)
		}
	})
	return j
}

func closeJob(t *testing.T, j *election.Job) {
	t.Helper()
	if err := j.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// leads waits up to a minute for any leader, and checks whether j leads.
func leads(t *testing.T, j *election.Job, want bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	_, err := j.WaitLeader(ctx)
	if got := j.IsLeader(); got != want || want && err != nil {
		t.Fatalf("IsLeader: got %v, want %v; WaitLeader: %v", got, want, err)
	}
}

// becomesLeader waits until IsLeader is true.
func becomesLeader(t *testing.T, j *election.Job) {
	t.Helper()
	eventually(t, "leadership of the job", j.IsLeader)
}

// lockOf returns a lock of the job "job" until the end of the test.
func lockOf(t *testing.T, s record.Store) *lock.Lock {
	t.Helper()
	l, err := lock.New(s, "job/latch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer stop()
		if err := l.Close(ctx); err != nil && !errors.Is(err, record.ErrNoQuorum) {
			t.Errorf("closing the lock: %v", err)
		}
	})
	return l
}

// eventually waits up to a minute for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("no %s within a minute", what)
		}
		programs.Pause(t, 10*time.Millisecond)
	}
}

// recordOfJob returns the record of the leader of a job.
func recordOfJob(t *testing.T, s record.Store, job string) (member.Record, bool) {
	t.Helper()
	r, err := s.List(t.Context(), "latch/"+job+"/leader")
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	if len(r) == 0 {
		return member.Record{}, false
	}
	return r[0], true
}

// awaitRecord waits until a member sees a leader of the job.
func awaitRecord(t *testing.T, s record.Store) {
	t.Helper()
	eventually(t, "record of a leader", func() bool {
		_, ok := recordOfJob(t, s, "job")
		return ok
	})
}

func tenContenders(t *testing.T, stores []record.Store) {
	var x Exclusive
	var locks []*lock.Lock
	for i := range stores {
		locks = append(locks, lockOf(t, stores[i]))
	}
	const contenders = 10
	ran := make(chan int, contenders)
	failed := make(chan error, contenders)
	for i := range contenders {
		go func() {
			failed <- locks[i%len(locks)].Do(t.Context(),
				func(ctx context.Context, term leader.Term) error {
					if err := x.EnterTerm(ctx, term); err != nil {
						return err
					}
					programs.Pause(t, 10*time.Millisecond)
					ran <- i
					return ctx.Err()
				})
		}()
	}
	for range contenders {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	close(ran)
	var all []int
	for i := range ran {
		all = append(all, i)
	}
	slices.Sort(all)
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(all, want) {
		t.Errorf("these contenders ran: %v, want each of them once", all)
	}
}

func lateContender(t *testing.T, stores []record.Store) {
	first := open(t, stores[0], "job", election.JobOptions{})
	leads(t, first, true)
	before, _ := recordOfJob(t, stores[0], "job")
	counts := Count(stores[1])
	awaitRecord(t, counts)
	late := open(t, counts, "job", election.JobOptions{})
	leads(t, late, false)
	programs.Pause(t, 10*time.Second)
	if got := counts.Commits(); got != 0 {
		t.Errorf("the late contender called Commit %d times, want never", got)
	}
	if after, ok := recordOfJob(t, stores[1], "job"); !ok || after.Token != before.Token {
		t.Errorf("leader record: got token %v, %v; want %v", after.Token, ok, before.Token)
	}
}

func dropped(t *testing.T, stores []record.Store) {
	var x Exclusive
	jobs := []*election.Job{
		open(t, stores[0], "job", election.JobOptions{}),
		open(t, stores[1], "job", election.JobOptions{}),
	}
	began, done := make(chan member.Token, 100), make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	for _, j := range jobs {
		go func() {
			done <- j.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
				if err := x.EnterTerm(ctx, term); err != nil {
					t.Error(err)
				}
				began <- term.Token()
				<-ctx.Done()
				return nil
			})
		}()
	}
	first := <-began
	drop := record.Op{Kind: record.Drop, Key: "latch/job/leader"}
	if _, err := stores[2].Session(nil).Commit(t.Context(), drop); err != nil {
		t.Fatal(err)
	}
	if next := <-began; !first.Less(next) {
		t.Errorf("the next term has token %v, want one greater than %v", next, first)
	}
	stop()
	for range jobs {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("WhileLeader: got %v, want context.Canceled", err)
		}
	}
}

func holderIsDisabled(t *testing.T, stores []record.Store) {
	a, id := open(t, stores[0], "job", election.JobOptions{}), stores[0].Session(nil).Member()
	leads(t, a, true)
	b := open(t, stores[1], "job", election.JobOptions{})
	began, ended := make(chan struct{}, 100), make(chan error, 100)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_ = a.WhileLeader(ctx, func(ctx context.Context, _ leader.Term) error {
			began <- struct{}{}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		})
	}()
	<-began
	if err := b.Enable(t.Context(), id, false); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, leader.ErrDisabled) {
		t.Errorf("the context ended with %v, want ErrDisabled", err)
	}
	becomesLeader(t, b)
}

func openedDisabled(t *testing.T, stores []record.Store) {
	open(t, stores[0], "job", election.JobOptions{Disabled: true})
	programs.Pause(t, 5*time.Second)
	if r, ok := recordOfJob(t, stores[0], "job"); ok {
		t.Errorf("a disabled member leads with the record %+v", r)
	}
	on := open(t, stores[1], "job", election.JobOptions{})
	leads(t, on, true)
	closeJob(t, on)
	programs.Pause(t, 5*time.Second)
	if r, ok := recordOfJob(t, stores[0], "job"); ok {
		t.Errorf("after the leader left, a disabled member leads with the record %+v", r)
	}
}

func isLeader(t *testing.T, stores []record.Store) {
	a := open(t, stores[0], "job", election.JobOptions{})
	leads(t, a, true)
	b := open(t, stores[1], "job", election.JobOptions{})
	leads(t, b, false)
	by, ok := b.Leader()
	if want := stores[0].Session(nil).Member(); by.ID != want || by.Token.IsZero() || !ok {
		t.Errorf("Leader: got %+v, %v; want %q", by, ok, want)
	}
	closeJob(t, a)
	becomesLeader(t, b)
}

func oldToken(t *testing.T, stores []record.Store) {
	a := open(t, stores[0], "job", election.JobOptions{})
	leads(t, a, true)
	b := open(t, stores[1], "job", election.JobOptions{})
	eventually(t, "leadership of the other member", func() bool {
		// If b takes long to notice, a leads again (see Resign).
		if err := a.Resign(t.Context()); err != nil && !errors.Is(err, leader.ErrNotLeader) {
			t.Fatalf("Resign: %v", err)
		}
		return b.IsLeader()
	})
	eventually(t, "record of the successor", func() bool {
		_, ok := a.Leader()
		return ok && !a.IsLeader()
	})
	after, _ := recordOfJob(t, stores[1], "job")
	if err := a.Resign(t.Context()); !errors.Is(err, leader.ErrNotLeader) {
		t.Errorf("second Resign: got %v, want ErrNotLeader", err)
	}
	programs.Pause(t, 5*time.Second)
	if now, ok := recordOfJob(t, stores[1], "job"); !ok || now.Token != after.Token {
		t.Errorf("leader record: got token %v, %v; want %v of the successor", now.Token, ok, after.Token)
	}
}

func changesAreSeen(t *testing.T, stores []record.Store) {
	const key = "test/k"
	var sessions []record.Session
	for _, s := range stores {
		sessions = append(sessions, s.Session(nil))
	}
	for i := range 30 { // one member drops the record, and the next member sets it immediately
		s := sessions[i%len(sessions)]
		token, err := s.Commit(t.Context(), record.Op{Kind: record.Absent, Key: key},
			record.Op{Kind: record.SetOwned, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		for n, store := range stores {
			eventually(t, fmt.Sprintf("record with token %v at member %d", token, n), func() bool {
				r, err := store.List(t.Context(), key)
				return err == nil && len(r) == 1 && r[0].Token == token
			})
		}
		_, err = s.Commit(t.Context(), record.Op{Kind: record.Held, Key: key, Token: token},
			record.Op{Kind: record.Drop, Key: key})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func allOrNothing(t *testing.T, stores []record.Store) {
	a, b := stores[0].Session(nil), stores[1].Session(nil)
	const key = "test/k"
	token, err := a.Commit(t.Context(), record.Op{Kind: record.Absent, Key: key},
		record.Op{Kind: record.SetOwned, Key: key, Value: []byte("v")})
	if err != nil {
		t.Fatal(err)
	}
	set := record.Op{Kind: record.Set, Key: "test/other"}
	other := member.Token{Version: 1 << 40}
	for _, tc := range []struct {
		want error
		op   record.Op
	}{
		{record.ErrConflict, record.Op{Kind: record.Absent, Key: key}},
		{record.ErrConflict, record.Op{Kind: record.Held, Key: key, Token: other}},
		{record.ErrOwned, record.Op{Kind: record.SetOwned, Key: key}},
	} {
		if _, err := b.Commit(t.Context(), set, tc.op); !errors.Is(err, tc.want) {
			t.Errorf("%+v: got %v, want %v", tc.op, err, tc.want)
		}
	}
	held := record.Op{Kind: record.Held, Key: key, Token: token}
	if _, err := b.Commit(t.Context(), held, set); err != nil {
		t.Errorf("Commit whose condition holds: %v", err)
	}
	eventually(t, "record that the commit set", func() bool {
		r, err := stores[0].List(t.Context(), "test/")
		return err == nil && len(r) == 2
	})
	if r, err := stores[0].List(t.Context(), key); err != nil || len(r) != 1 || !a.Owns(r[0]) ||
		b.Owns(r[0]) || r[0].Token != token || string(r[0].Value) != "v" {
		t.Errorf("got the records %+v, %v; want only the one with token %v", r, err, fmt.Sprint(token))
	}
}

// inVain checks that a commit of another session of the same member, which sees an older table, is
// refused and ends no term.
func inVain(t *testing.T, stores []record.Store) {
	const key = "test/k"
	a, b := stores[0].Session(nil), stores[0].Session(nil)
	set := record.Op{Kind: record.SetOwned, Key: key}
	token, err := a.Commit(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := a.Hold(t.Context(), key, token)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		_, err := b.Commit(t.Context(), record.Op{Kind: record.Absent, Key: key}, set)
		if !errors.Is(err, record.ErrConflict) {
			t.Errorf("got %v, want ErrConflict", err)
		}
		if err := lease.Term().Err(); err != nil {
			t.Fatalf("the term has ended: %v", err)
		}
	}
	if _, err := b.Commit(t.Context(), set); err != nil {
		t.Error(err)
	}
	if err := lease.Term().Err(); !errors.Is(err, record.ErrReleased) {
		t.Errorf("after a commit that replaced the record: got %v, want ErrReleased", err)
	}
}
