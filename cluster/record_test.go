// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
)

// acquire takes a record as a latch is taken.
func acquire(t *testing.T, s *Session, key string) Holding {
	t.Helper()
	token, err := s.node.Commit(t.Context(), Absent(key), Set(key, []byte("v"), s))
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	h, err := s.Hold(t.Context(), key, token)
	if err != nil || !h.Valid() {
		t.Fatalf("Hold: %v, valid %v", err, h.Valid())
	}
	return h
}

// followers are the nodes that do not lead.
func (w *world) followers() []*Node { return w.others(w.leader()) }

func TestCommitIsSeenByAll(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for i, n := range w.nodes {
			s := n.Session()
			key := fmt.Sprint("jobs/", i)
			h := acquire(t, s, key)
			for _, o := range w.nodes {
				synctest.Wait()
				r, err := o.Get(key)
				if err != nil || r.Token != h.Token() || string(r.Value) != "v" || s.Owns(r) != true {
					t.Errorf("node %v: got %+v, %v, want the record by %v", o.cfg.self, r, err, h.Token())
				}
			}
			if w.nodes[(i+1)%3].Session().Owns(member.Record{Key: key}) {
				t.Error("a session owns what is nobody's")
			}
		}
		if _, err := w.nodes[0].Get("jobs/9"); !errors.Is(err, ErrAbsent) {
			t.Errorf("got %v, want ErrAbsent", err)
		}
		if got := w.nodes[0].Records("jobs/1"); len(got) != 1 || got[0].Key != "jobs/1" {
			t.Errorf("got %+v under jobs/1", got)
		}
		if got := w.nodes[0].Records(""); len(got) != 3 {
			t.Errorf("got %d records, want 3", len(got))
		}
	})
}

func TestCommitIsAllOrNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.followers()[0], w.followers()[1]
		s := a.Session()
		h := acquire(t, s, "k")
		for _, tc := range []struct {
			want error
			ops  []Op
		}{
			{ErrConflict, []Op{Absent("k"), Set("other", nil, nil)}},
			{ErrConflict, []Op{Held("k", member.Token{Version: 1}), Set("other", nil, nil)}},
			{ErrOwned, []Op{Set("other", nil, nil), Set("k", nil, nil)}},
			{ErrTooLarge, []Op{Set("other", make([]byte, member.MaxValueBytes+1), nil)}},
			{ErrTooLarge, []Op{Set("", nil, nil)}},
		} {
			if _, err := b.Commit(t.Context(), tc.ops...); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		}
		if got := b.Records(""); len(got) != 1 || !h.Valid() {
			t.Errorf("got %+v, valid %v, want one record that is held", got, h.Valid())
		}
		// A fenced write: the record that guards it is a condition.
		if _, err := a.Commit(t.Context(), Held("k", h.Token()), Set("other", nil, nil)); err != nil {
			t.Error(err)
		}
	})
}

// Who holds a record again and again gets the same holding.
func TestHoldAgain(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		n := w.followers()[0]
		s := n.Session()
		h := acquire(t, s, "k")
		for range 100 {
			again, err := s.Hold(t.Context(), "k", h.Token())
			if err != nil || again != h {
				t.Fatalf("got %v, %v, want the holding that there is", again, err)
			}
		}
		if got := len(n.holdings.all); got != 1 {
			t.Errorf("%d holdings of one record", got)
		}
		if _, err := n.Commit(t.Context(), Drop("k")); err != nil {
			t.Fatal(err)
		}
		if h.Valid() || !errors.Is(h.Err(), ErrReleased) {
			t.Errorf("got %v after it was dropped", h.Err())
		}
	})
}

// What another node drops is held until its owner knows, and free soon.
func TestAHoldingEndsBeforeAnotherBegins(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.followers()[0], w.followers()[1]
		h := acquire(t, a.Session(), "k")
		ran := make(chan error, 1)
		go func() {
			ran <- h.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		if _, err := b.Commit(t.Context(), Drop("k")); err != nil {
			t.Fatal(err)
		}
		for r := range b.WatchRecords(t.Context(), "k") {
			if len(r) == 0 {
				break
			}
		}
		if err := <-ran; !errors.Is(err, ErrNotHeld) || h.Valid() {
			t.Errorf("got %v, valid %v, want ErrNotHeld", err, h.Valid())
		}
		next := acquire(t, b.Session(), "k")
		if next.Token().Compare(h.Token()) <= 0 {
			t.Errorf("got the token %v after %v", next.Token(), h.Token())
		}
		if _, err := a.Session().Hold(t.Context(), "k", h.Token()); !errors.Is(err, ErrNotHeld) {
			t.Errorf("got %v, want ErrNotHeld", err)
		}
	})
}

// A node that is cut off may act until its own deadline, and no longer.
func TestAHoldingOfACutOffNodeEnds(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.followers()[0], w.followers()[1]
		h := acquire(t, a.Session(), "k")
		hold := a.cfg.timings.HoldTimeout()
		if left := a.HoldRemaining(); left <= 0 || left > hold*9/10 {
			t.Errorf("%v remain, want at most %v", left, hold*9/10)
		}
		cut := time.Now()
		w.cut(a)
		synctest.Wait() // for what is under way
		left := a.HoldRemaining()
		<-h.Done()
		if took := time.Since(cut); took != left || a.HoldRemaining() != 0 {
			t.Errorf("ended after %v, and %v remain; want %v and 0", took, a.HoldRemaining(), left)
		}
		if took := time.Since(cut); took > hold*9/10 || !errors.Is(h.Err(), ErrLeaseEnded) {
			t.Errorf("ended after %v with %v, want ErrLeaseEnded within %v", took, h.Err(), hold*9/10)
		}
		for r := range b.WatchRecords(t.Context(), "k") {
			if len(r) == 0 {
				break
			}
		}
		if took := time.Since(cut); took > hold+a.cfg.timings.HeartbeatInterval {
			t.Errorf("free after %v, want %v", took, hold)
		}
		acquire(t, b.Session(), "k")
	})
}

// Another leader changes nothing for those that hold, the one that led among them.
func TestAHoldingOutlivesTheLeader(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		leader, a := w.leader(), w.followers()[0]
		h, own := acquire(t, a.Session(), "a"), acquire(t, leader.Session(), "own")
		if err := leader.Transfer(t.Context(), w.followers()[1].cfg.self); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * a.cfg.timings.LeaseTimeout)
		if !h.Valid() || !own.Valid() {
			t.Errorf("held by a member %v, by the leader of before %v: want both", h.Valid(), own.Valid())
		}
		w.end(w.leader())
		time.Sleep(3 * a.cfg.timings.LeaderTimeout)
		if !h.Valid() {
			t.Errorf("not held after a crash of the leader: %v", h.Err())
		}
	})
}

func TestReleaseAndCloseAndLeave(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.followers()[0], w.followers()[1]
		s := a.Session()
		released, closed := acquire(t, s, "released"), acquire(t, s, "closed")
		left := acquire(t, a.Session(), "left")
		_, err := a.Commit(t.Context(), Held("released", released.Token()), Drop("released"))
		if err != nil {
			t.Fatal(err)
		}
		if err := released.Err(); !errors.Is(err, ErrReleased) {
			t.Errorf("got %v, want ErrReleased", err)
		}
		if err := s.Close(t.Context()); err != nil || !errors.Is(closed.Err(), ErrReleased) {
			t.Errorf("Close: %v, and the holding ended with %v", err, closed.Err())
		}
		if !left.Valid() {
			t.Error("another session of the node was closed too")
		}
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := left.Err(); !errors.Is(err, ErrLeft) {
			t.Errorf("got %v, want ErrLeft", err)
		}
		for r := range b.WatchRecords(t.Context(), "") {
			if len(r) == 0 {
				break
			}
		}
	})
}

// Nothing is granted without a majority: Commit waits, and says so when it may wait no
// more.
func TestCommitWithoutALeader(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a := w.followers()[0]
		w.cut(a)
		time.Sleep(3 * a.cfg.timings.LeaderTimeout)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := a.Commit(ctx, Set("k", nil, nil))
		if !errors.Is(err, ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrNoQuorum and the end of the context", err)
		}
		done := make(chan error)
		go func() {
			_, err := a.Commit(t.Context(), Set("k", nil, nil))
			done <- err
		}()
		synctest.Wait()
		w.heal(a)
		if err := <-done; err != nil {
			t.Errorf("after the heal: %v", err)
		}
	})
}

// A request that the leader took to its end may have been taken.
func TestCommitOfUnknownOutcome(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, leader := w.followers()[0], w.leader()
		w.cut(leader) // it is not noticed yet
		_, err := a.Commit(t.Context(), Set("k", nil, nil))
		if !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("got %v, want ErrUnknownOutcome", err)
		}
		w.end(leader)
		if _, err := a.Commit(t.Context(), Set("k", nil, nil)); err != nil {
			t.Errorf("asked again: %v", err)
		}
		w.end(a)
		if _, err := a.Commit(t.Context(), Set("k", nil, nil)); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}

// More requests than may be under way wait, and those that wait for too long ask nothing.
func TestCommitWaitsForItsTurn(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, leader := w.followers()[0], w.leader()
		w.cut(leader) // it is not noticed yet
		short, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		failed := make(chan error, 3*maxAsking)
		for i := range 3 * maxAsking {
			go func() {
				_, err := a.Commit(short, Absent(fmt.Sprint(i)), Set(fmt.Sprint(i), nil, nil))
				failed <- err
			}()
		}
		var asked, waited int
		for range 3 * maxAsking {
			switch err := <-failed; {
			case errors.Is(err, ErrUnknownOutcome):
				asked++
			case errors.Is(err, ErrBusy) && errors.Is(err, context.DeadlineExceeded):
				waited++
			default:
				t.Fatal(err)
			}
		}
		if asked != maxAsking || waited != 2*maxAsking {
			t.Errorf("%d were asked and %d waited, want %d and the rest", asked, waited, maxAsking)
		}
		w.heal(leader)
		var all sync.WaitGroup
		for i := range 3 * maxAsking {
			all.Go(func() {
				if _, err := a.Commit(t.Context(), Set(fmt.Sprint(i), nil, nil)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// A watcher gets what is there first, and is woken by its own keys alone.
func TestWatchRecords(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a := w.followers()[0]
		s := a.Session()
		acquire(t, s, "a/1")
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for r := range a.WatchRecords(ctx, "a/") {
				var keys []string
				for _, e := range r {
					keys = append(keys, e.Key)
				}
				seen = append(seen, strings.Join(keys, " "))
			}
		}()
		synctest.Wait()
		for _, op := range []Op{Set("b/1", nil, nil), Set("a/2", nil, nil), Drop("a/1")} {
			if _, err := a.Commit(t.Context(), op); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		cancel()
		<-done
		if want := []string{"a/1", "a/1 a/2", "a/2"}; !slices.Equal(seen, want) {
			t.Errorf("got %q, want %q", seen, want)
		}
	})
}
