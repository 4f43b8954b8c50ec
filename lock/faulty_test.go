// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// drawnLimit bounds how long drawn callers wait.
const drawnLimit = 10 * time.Minute

// faulty is a table of records with the faults of a cluster. Outcomes of commits are unknown: the
// changes were made, will be made or are lost, and the member does not trust its records. Records
// of other members are revoked for a while before they are dropped. A member may see an older
// table.
type faulty struct {
	*record.Memory
	t *testing.T

	mu      sync.Mutex
	r       *rand.Rand
	rate    int                        // one of rate commits has an unknown outcome; 0 means none
	refuse  int                        // one of refuse commits is refused for a moment; 0 means none
	unsure  map[member.Token]bool      // tokens that a commit of unknown outcome has set
	revoked map[string]member.Token    // by key
	views   map[string][]member.Record // the newest table that a member has seen, by its host
}

func newFaulty(t *testing.T, seed uint64) *faulty {
	return &faulty{
		Memory: record.NewMemory(), t: t, r: rand.New(rand.NewPCG(seed, 39)), rate: 8,
		unsure: map[member.Token]bool{}, revoked: map[string]member.Token{},
		views: map[string][]member.Record{},
	}
}

func (f *faulty) openStore(host string) record.Store {
	return faultyStore{f.Memory.Store(host), f, host}
}

// checkEmpty checks that no record is left.
func (f *faulty) checkEmpty() {
	f.t.Helper()
	time.Sleep(time.Minute) // records are dropped in the background
	if left, _ := f.Store("checker").List(f.t.Context(), ""); len(left) > 0 {
		f.t.Errorf("records are left: %v", left)
	}
}

func (f *faulty) draw(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.r.IntN(n)
}

// setRates sets how many commits have an unknown outcome, and how many are refused.
func (f *faulty) setRates(rate, refuse int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate, f.refuse = rate, refuse
}

// happens reports whether a fault happens that happens once in n times; never if n is 0.
func (f *faulty) happens(n *int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *n > 0 && f.r.IntN(*n) == 0
}

// isOlder reports whether a member sees an older table.
func (f *faulty) isOlder() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rate > 0 && f.r.IntN(4) == 0
}

// revoke revokes a record, and drops it a second later.
func (f *faulty) revoke(key string) {
	operator := f.Store("operator").Session(nil)
	r, err := record.Get(f.t.Context(), f.Store("operator"), key)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.revoked[key] = r.Token
	f.mu.Unlock()
	time.Sleep(time.Second)
	_, _ = operator.Commit(f.t.Context(),
		record.Op{Kind: record.Held, Key: key, Token: r.Token}, record.Op{Kind: record.Drop, Key: key})
}

type faultyStore struct {
	record.Store
	f    *faulty
	host string
}

func (s faultyStore) List(ctx context.Context, prefix string) (list []member.Record, err error) {
	if !s.f.isOlder() {
		all, err := s.Store.List(ctx, "")
		if err != nil {
			return nil, err
		}
		s.f.mu.Lock()
		s.f.views[s.host] = all
		s.f.mu.Unlock()
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for _, r := range s.f.views[s.host] {
		if strings.HasPrefix(r.Key, prefix) {
			r.Revoked = s.f.revoked[r.Key] == r.Token
			list = append(list, r)
		}
	}
	return list, nil
}

func (s faultyStore) Session(lost record.LostFunc) record.Session {
	return &faultySession{Session: s.Store.Session(lost), f: s.f}
}

type faultySession struct {
	record.Session
	f    *faulty
	late []record.Op // may be made until the next Commit
}

// Commit draws what becomes of the commit.
func (s *faultySession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	s.f.mu.Lock()
	s.late = nil
	for _, op := range ops {
		if op.Kind == record.Held && s.f.revoked[op.Key] == op.Token {
			s.f.mu.Unlock()
			return member.Token{}, record.ErrConflict
		}
	}
	s.f.mu.Unlock()
	if s.f.happens(&s.f.refuse) {
		return member.Token{}, record.ErrBusy
	}
	if !s.f.happens(&s.f.rate) {
		return s.Session.Commit(ctx, ops...)
	}
	switch s.f.draw(3) {
	case 0:
		s.commitUnsure(ctx, ops)
	case 1:
		s.f.mu.Lock()
		s.late = ops
		s.f.mu.Unlock()
		after := time.Duration(s.f.draw(3000)) * time.Millisecond
		time.AfterFunc(after, func() { s.commitLate(ctx) })
	}
	return member.Token{}, record.ErrUnknownOutcome
}

// commitLate makes the changes, unless the session has made another commit.
func (s *faultySession) commitLate(ctx context.Context) {
	s.f.mu.Lock()
	ops := s.late
	s.late = nil
	s.f.mu.Unlock()
	if ops != nil {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Millisecond)
		defer stop()
		s.commitUnsure(ctx, ops)
	}
}

func (s *faultySession) commitUnsure(ctx context.Context, ops []record.Op) {
	token, err := s.Session.Commit(ctx, ops...)
	if err == nil {
		s.f.mu.Lock()
		s.f.unsure[token] = true
		s.f.mu.Unlock()
	}
}

// Hold refuses records that this session does not trust.
func (s *faultySession) Hold(
	ctx context.Context, key string, token member.Token,
) (*leader.Lease, error) {
	s.f.mu.Lock()
	refused := s.f.unsure[token] || s.f.revoked[key] == token
	s.f.mu.Unlock()
	if refused {
		return nil, record.ErrNotHeld
	}
	return s.Session.Hold(ctx, key, token)
}

// TestPermits draws callers of a semaphore, while outcomes are unknown, permits are revoked and
// members are cut off. Some callers share a handle. Never more callers than permits run, all are
// served, and no record is left.
func TestPermits(t *testing.T) {
	for permits := 1; permits <= 8; permits++ {
		for seed := range uint64(30) {
			synctest.Test(t, func(t *testing.T) { drawPermits(t, permits, seed) })
			if t.Failed() {
				t.Fatalf("permits %d, seed %d", permits, seed)
			}
		}
	}
}

func drawPermits(t *testing.T, permits int, seed uint64) {
	r, table := rand.New(rand.NewPCG(seed, 11)), newFaulty(t, seed)
	ctx, stop := context.WithTimeout(t.Context(), drawnLimit)
	defer stop()
	open := func(host int) *Semaphore {
		s, err := NewSemaphore(table.openStore(fmt.Sprint("host-", host)), "a", permits)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	handles := [3]*Semaphore{open(0), open(1), open(2)}
	var mu sync.Mutex
	var all sync.WaitGroup
	var spans []context.Context
	for range 30 {
		host := r.IntN(3)
		s := handles[host]
		if r.IntN(2) == 0 {
			s = open(host)
		}
		holds := time.Duration(r.IntN(300)) * time.Millisecond
		all.Go(func() {
			err := s.Do(ctx, func(ctx context.Context, _ leader.Term) error {
				ctx, end := context.WithTimeout(ctx, holds)
				defer end()
				mu.Lock()
				spans = append(slices.DeleteFunc(spans, func(c context.Context) bool {
					return c.Err() != nil
				}), ctx)
				if len(spans) > permits {
					t.Errorf("%d callers hold %d permits", len(spans), permits)
				}
				mu.Unlock()
				<-ctx.Done()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
		switch r.IntN(12) {
		case 0:
			table.Cut(fmt.Sprint("host-", host))
			time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
			table.Heal(fmt.Sprint("host-", host))
		case 1:
			all.Go(func() { table.revoke(s.permits[0]) })
		}
	}
	all.Wait()
	table.checkEmpty()
}

// TestManyCallers checks that the callers of one handle take one place in the queue, that a queue
// takes only a part of the table, and that a caller of another member is served before them.
func TestManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := record.NewMemory()
		a, err := NewSemaphore(table.Store("a"), "x", 1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewSemaphore(table.Store("b"), "x", 1)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		served, atB := 0, 0
		hold := func(context.Context, leader.Term) error {
			served++
			time.Sleep(time.Millisecond)
			return nil
		}
		for range 3000 {
			all.Go(func() { _ = a.Do(t.Context(), hold) })
		}
		synctest.Wait()
		if all, _ := table.Store("a").List(t.Context(), ""); len(all) > 2 {
			t.Errorf("%d records, want those of the holder and of the next caller", len(all))
		}
		all.Go(func() {
			_ = b.Do(t.Context(), func(context.Context, leader.Term) error { atB = served; return nil })
		})
		all.Wait()
		if atB > 3 {
			t.Errorf("the caller of the other member runs after %d callers", atB)
		}
		counted := make(chan struct{})
		far := distantStore{table.Store("a"), time.Millisecond} // all see a short queue before they join
		for range maxQueue + 100 {                              // handles that are not shared
			s, err := NewSemaphore(far, "x", 1)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				_ = s.Do(t.Context(), func(ctx context.Context, term leader.Term) error {
					<-counted
					return hold(ctx, term)
				})
			})
		}
		<-time.After(10 * time.Second)
		if all, _ := table.Store("a").List(t.Context(), ""); len(all) > maxQueue+1 {
			t.Errorf("%d records, want at most %d", len(all), maxQueue+1)
		}
		close(counted)
		all.Wait()
		if served != 3000+maxQueue+100 {
			t.Errorf("%d callers were served", served)
		}
		time.Sleep(time.Minute)
	})
}

// TestLostPlace cuts a caller off while its commit is under way. Its place ends, so it does not get
// the permit before a caller that kept its place.
func TestLostPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 20 * time.Millisecond
		table, all := record.NewMemory(), sync.WaitGroup{}
		var order []string
		call := func(host string, holds time.Duration) {
			l, err := New(distantStore{table.Store(host), delay}, "a")
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				_ = l.Do(t.Context(), func(context.Context, leader.Term) error {
					order = append(order, host)
					time.Sleep(holds)
					return nil
				})
			})
			time.Sleep(10 * delay)
		}
		call("first", time.Second)
		call("cut", 0)
		call("second", time.Second)
		call("third", time.Second)
		time.Sleep(time.Second - 4*10*delay + 3*delay + delay/2) // until "cut" takes the permit
		table.Cut("cut")
		time.Sleep(time.Second + 3*delay + delay/2) // until "third" takes it
		table.Heal("cut")
		all.Wait()
		if want := []string{"first", "second", "third", "cut"}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
		time.Sleep(time.Minute)
	})
}

// TestPermitOfACallerThatLeaves draws callers that give up at any time while commits are refused or
// have an unknown outcome. They leave no record behind.
func TestPermitOfACallerThatLeaves(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			table := newFaulty(t, seed)
			table.setRates(3, 3)
			s, err := NewSemaphore(table.openStore("a"), "x", 2)
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for range 5 {
				ctx, stop := context.WithTimeout(t.Context(), time.Duration(table.draw(5000))*time.Millisecond)
				all.Go(func() {
					defer stop()
					_ = s.Do(ctx, func(context.Context, leader.Term) error { return nil })
				})
			}
			all.Wait()
			table.setRates(0, 0)
			table.checkEmpty()
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
