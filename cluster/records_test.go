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

	"github.com/athena-go/athena/internal/recordtable"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

func session(n *Node) record.Session { return n.Records().Session(nil) }

func absent(key string) record.Op { return record.Op{Kind: record.Absent, Key: key} }

func held(key string, token member.Token) record.Op {
	return record.Op{Kind: record.Held, Key: key, Token: token}
}

func set(key string, value []byte) record.Op {
	return record.Op{Kind: record.Set, Key: key, Value: value}
}

func setOwned(key string, value []byte) record.Op {
	return record.Op{Kind: record.SetOwned, Key: key, Value: value}
}

func dropped(key string) record.Op { return record.Op{Kind: record.Drop, Key: key} }

// list returns the records with a prefix that a running node sees.
func list(t *testing.T, n *Node, prefix string) []member.Record {
	t.Helper()
	records, err := n.Records().List(t.Context(), prefix)
	if err != nil {
		t.Errorf("List: %v", err)
	}
	return records
}

// acquire sets a record that does not exist yet and holds it.
func acquire(t *testing.T, s record.Session, key string) leader.Term {
	t.Helper()
	token, err := s.Commit(t.Context(), absent(key), setOwned(key, []byte("v")))
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	l, err := s.Hold(t.Context(), key, token)
	if err != nil || !l.Term().Valid() {
		t.Fatalf("Hold: %v, valid %v", err, err == nil && l.Term().Valid())
	}
	return l.Term()
}

// followers returns the nodes that do not lead.
func (w *world) followers() []*Node { return w.others(w.leader()) }

func TestCommitIsSeenByAll(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for i, n := range w.nodes {
			s := session(n)
			key := fmt.Sprint("jobs/", i)
			h := acquire(t, s, key)
			for _, o := range w.nodes {
				synctest.Wait()
				r, err := record.Get(t.Context(), o.Records(), key)
				if err != nil || r.Token != h.Token() || string(r.Value) != "v" || s.Owns(r) != true {
					t.Errorf("node %v: got %+v, %v, want the record by %v", o.cfg.self, r, err, h.Token())
				}
			}
			if session(w.nodes[(i+1)%3]).Owns(member.Record{Key: key}) {
				t.Error("a session owns a record without an owner")
			}
		}
		_, err := record.Get(t.Context(), w.nodes[0].Records(), "jobs/9")
		if !errors.Is(err, record.ErrAbsent) {
			t.Errorf("got %v, want ErrAbsent", err)
		}
		if got := list(t, w.nodes[0], "jobs/1"); len(got) != 1 || got[0].Key != "jobs/1" {
			t.Errorf("got %+v under jobs/1", got)
		}
		if got := list(t, w.nodes[0], ""); len(got) != 3 {
			t.Errorf("got %d records, want 3", len(got))
		}
	})
}

func TestCommitIsAllOrNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.followers()[0], w.followers()[1]
		s := session(a)
		h := acquire(t, s, "k")
		for _, tc := range []struct {
			want error
			ops  []record.Op
		}{
			{record.ErrConflict, []record.Op{absent("k"), set("other", nil)}},
			{record.ErrConflict, []record.Op{held("k", member.Token{Version: 1}), set("other", nil)}},
			{record.ErrOwned, []record.Op{set("other", nil), set("k", nil)}},
			{record.ErrTooLarge, []record.Op{set("other", make([]byte, member.MaxValueBytes+1))}},
			{record.ErrTooLarge, []record.Op{set("", nil)}},
		} {
			if _, err := session(b).Commit(t.Context(), tc.ops...); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		}
		if got := list(t, b, ""); len(got) != 1 || !h.Valid() {
			t.Errorf("got %+v, valid %v, want one record that is held", got, h.Valid())
		}
		// A fenced write. It succeeds only while the record that guards it is held.
		if _, err := session(a).Commit(t.Context(), held("k", h.Token()), set("other", nil)); err != nil {
			t.Error(err)
		}
	})
}

// TestHoldAgain checks that repeated calls of Hold return the same lease.
func TestHoldAgain(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		n := w.followers()[0]
		s := session(n)
		h := acquire(t, s, "k")
		for range 100 {
			again, err := s.Hold(t.Context(), "k", h.Token())
			if err != nil || again.Term() != h {
				t.Fatalf("got %v, %v, want the holding that there is", again, err)
			}
		}
		if _, err := session(n).Commit(t.Context(), dropped("k")); err != nil {
			t.Fatal(err)
		}
		if h.Valid() || !errors.Is(h.Err(), record.ErrReleased) {
			t.Errorf("got %v after it was dropped", h.Err())
		}
	})
}

// TestAHoldingEndsBeforeAnotherBegins checks that a record that another node drops is held until
// its owner knows about the drop. It can be set again soon afterwards.
func TestAHoldingEndsBeforeAnotherBegins(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.followers()[0], w.followers()[1]
		h := acquire(t, session(a), "k")
		ran := make(chan error, 1)
		go func() {
			ran <- h.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		if _, err := session(b).Commit(t.Context(), dropped("k")); err != nil {
			t.Fatal(err)
		}
		for r := range record.Watch(t.Context(), b.Records(), "k") {
			if len(r) == 0 {
				break
			}
		}
		if err := <-ran; !errors.Is(err, record.ErrNotHeld) || h.Valid() {
			t.Errorf("got %v, valid %v, want ErrNotHeld", err, h.Valid())
		}
		next := acquire(t, session(b), "k")
		if next.Token().Compare(h.Token()) <= 0 {
			t.Errorf("got the token %v after %v", next.Token(), h.Token())
		}
		if _, err := session(a).Hold(t.Context(), "k", h.Token()); !errors.Is(err, record.ErrNotHeld) {
			t.Errorf("got %v, want ErrNotHeld", err)
		}
	})
}

// TestAHoldingOfACutOffNodeEnds checks that a node that is cut off may act until its own deadline,
// but no longer.
func TestAHoldingOfACutOffNodeEnds(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.followers()[0], w.followers()[1]
		h := acquire(t, session(a), "k")
		hold := a.cfg.timings.HoldTimeout()
		if left := a.HoldRemaining(); left <= 0 || left > hold*9/10 {
			t.Errorf("%v remain, want at most %v", left, hold*9/10)
		}
		cut := time.Now()
		w.cut(a)
		synctest.Wait() // let messages in flight arrive
		left := a.HoldRemaining()
		<-h.Done()
		if took := time.Since(cut); took != left || a.HoldRemaining() != 0 {
			t.Errorf("ended after %v, and %v remain; want %v and 0", took, a.HoldRemaining(), left)
		}
		if took := time.Since(cut); took > hold*9/10 || !errors.Is(h.Err(), leader.ErrLeaseEnded) {
			t.Errorf("ended after %v with %v, want ErrLeaseEnded within %v", took, h.Err(), hold*9/10)
		}
		for r := range record.Watch(t.Context(), b.Records(), "k") {
			if len(r) == 0 {
				break
			}
		}
		if took := time.Since(cut); took > hold+a.cfg.timings.HeartbeatInterval {
			t.Errorf("free after %v, want %v", took, hold)
		}
		acquire(t, session(b), "k")
	})
}

// TestAHoldingOutlivesTheLeader checks that a change of leader does not affect held records, not
// even those of the previous leader.
func TestAHoldingOutlivesTheLeader(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		leader, a := w.leader(), w.followers()[0]
		h, own := acquire(t, session(a), "a"), acquire(t, session(leader), "own")
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

func TestReleaseAndLeave(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, b := w.followers()[0], w.followers()[1]
		s := session(a)
		released, kept := acquire(t, s, "released"), acquire(t, s, "kept")
		left := acquire(t, session(a), "left")
		_, err := session(a).Commit(t.Context(), held("released", released.Token()), dropped("released"))
		if err != nil {
			t.Fatal(err)
		}
		if err := released.Err(); !errors.Is(err, record.ErrReleased) {
			t.Errorf("got %v, want ErrReleased", err)
		}
		if !kept.Valid() || !left.Valid() {
			t.Error("a record that was not released is not held any longer")
		}
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := left.Err(); !errors.Is(err, ErrLeft) {
			t.Errorf("got %v, want ErrLeft", err)
		}
		for r := range record.Watch(t.Context(), b.Records(), "") {
			if len(r) == 0 {
				break
			}
		}
	})
}

// TestCommitWithoutALeader checks that Commit waits while there is no majority, and that its error
// names the reason.
func TestCommitWithoutALeader(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a := w.followers()[0]
		w.cut(a)
		time.Sleep(3 * a.cfg.timings.LeaderTimeout)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := session(a).Commit(ctx, set("k", nil))
		if !errors.Is(err, ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrNoQuorum and the end of the context", err)
		}
		done := make(chan error)
		go func() {
			_, err := session(a).Commit(t.Context(), set("k", nil))
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("a commit without a majority ended: %v", err)
			return
		default:
		}
		w.heal(a)
		// The leader may have sent its last messages on a connection that it closed during the cut. If
		// they arrive now, the commit may go out on that connection too, and its caller asks again.
		err = <-done
		soon := w.within(a.cfg.timings.LeaderTimeout)
		for errors.Is(err, record.ErrUnknownOutcome) && soon.Err() == nil {
			_, err = session(a).Commit(soon, set("k", nil))
		}
		if err != nil {
			t.Errorf("after the heal: %v", err)
		}
	})
}

// TestCommitOfUnknownOutcome checks that the outcome of a commit is unknown if its request was lost
// with the leader.
func TestCommitOfUnknownOutcome(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, leader := w.followers()[0], w.leader()
		w.cut(leader) // not noticed yet
		_, err := session(a).Commit(t.Context(), set("k", nil))
		if !errors.Is(err, record.ErrUnknownOutcome) {
			t.Errorf("got %v, want ErrUnknownOutcome", err)
		}
		w.end(leader)
		if _, err := session(a).Commit(t.Context(), set("k", nil)); err != nil {
			t.Errorf("asked again: %v", err)
		}
		w.end(a)
		if _, err := session(a).Commit(t.Context(), set("k", nil)); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}

// TestCommitWaitsForItsTurn checks that commits beyond the limit wait. Those that wait too long
// must send nothing.
func TestCommitWaitsForItsTurn(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a, leader := w.followers()[0], w.leader()
		w.cut(leader) // not noticed yet
		short, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		failed := make(chan error, 3*recordtable.MaxCommits)
		for i := range 3 * recordtable.MaxCommits {
			go func() {
				_, err := session(a).Commit(short, absent(fmt.Sprint(i)), set(fmt.Sprint(i), nil))
				failed <- err
			}()
		}
		var asked, waited int
		for range 3 * recordtable.MaxCommits {
			switch err := <-failed; {
			case errors.Is(err, record.ErrUnknownOutcome):
				asked++
			case errors.Is(err, record.ErrBusy) && errors.Is(err, context.DeadlineExceeded):
				waited++
			default:
				t.Fatal(err)
			}
		}
		if asked != recordtable.MaxCommits || waited != 2*recordtable.MaxCommits {
			t.Errorf("%d were asked and %d waited, want %d and the rest",
				asked, waited, recordtable.MaxCommits)
		}
		w.heal(leader)
		var all sync.WaitGroup
		for i := range 3 * recordtable.MaxCommits {
			all.Go(func() {
				if _, err := session(a).Commit(t.Context(), set(fmt.Sprint(i), nil)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// TestWatchRecords checks that a watcher first gets the current records, and then is woken only by
// changes of keys with its prefix.
func TestWatchRecords(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		a := w.followers()[0]
		s := session(a)
		acquire(t, s, "a/1")
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for r := range record.Watch(ctx, a.Records(), "a/") {
				var keys []string
				for _, e := range r {
					keys = append(keys, e.Key)
				}
				seen = append(seen, strings.Join(keys, " "))
			}
		}()
		synctest.Wait()
		for _, op := range []record.Op{set("b/1", nil), set("a/2", nil), dropped("a/1")} {
			if _, err := session(a).Commit(t.Context(), op); err != nil {
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

// TestCommitWhoseSaveFails checks that the outcome is unknown, because the disk may have the state
// although its sync failed.
func TestCommitWhoseSaveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		disk := &brokenStore{Memory: store.NewMemory([32]byte{}), saves: 1 << 20}
		n, err := w.startOn(disk, 0, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.WaitLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		disk.saves = 0
		_, err = session(n).Commit(t.Context(), set("k", nil))
		if !errors.Is(err, record.ErrUnknownOutcome) || !errors.Is(err, errBoom) {
			t.Errorf("got %v, want ErrUnknownOutcome because of the store", err)
		}
		<-n.Done()
	})
}
