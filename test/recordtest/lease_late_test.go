// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	leases "github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// The answer to a commit may be outdated when it arrives, because the record has been
// revoked, deleted and set by another member.
func TestLeaseIsRevokedBeforeItIsAnswered(t *testing.T) {
	inService(t, 2, func(t *testing.T, clients []*client, stores []*leases.Store) {
		a, b := stores[0].Session(nil), stores[1].Session(nil)
		set := record.Op{Kind: record.SetOwned, Key: "k"}
		clients[0].set(func(c *client) { c.delay = leaseTimeout / 4 })
		var all sync.WaitGroup
		all.Go(func() {
			token, err := a.Commit(t.Context(), set)
			if err != nil {
				t.Error(err)
			}
			_ = RunHeld(t.Context(), a, "k", token, func(context.Context) error {
				t.Error("it is held, and so it is by another one")
				return nil
			})
		})
		synctest.Wait()
		if _, err := b.Commit(t.Context(), record.Op{Kind: record.Drop, Key: "k"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		clients[0].set(func(c *client) { c.deaf = true })
		token, err := b.Commit(t.Context(), record.Op{Kind: record.Absent, Key: "k"}, set)
		if err != nil {
			t.Fatal(err)
		}
		err = RunHeld(t.Context(), b, "k", token, func(ctx context.Context) error {
			all.Wait()
			return ctx.Err()
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// The first of two concurrent commits was sent before a renewal, the second after it. The failure
// of the first must not confirm the second.
func TestLeaseTwoUnknownOutcomes(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		s, c := stores[0].Session(nil), clients[0]
		give := func(key string) (giveUp func()) {
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, err := s.Commit(ctx, record.Op{Kind: record.SetOwned, Key: key})
				if !errors.Is(err, record.ErrUnknownOutcome) {
					t.Errorf("Commit of %q: got %v, want ErrUnknownOutcome", key, err)
				}
			}()
			synctest.Wait()
			return func() { stop(); <-done }
		}
		c.set(func(c *client) { c.late, c.silent = true, true })
		first := give("first")
		time.Sleep(leaseTimeout / 4) // a renewal follows
		second := give("second")
		second()
		first()
		c.set(func(c *client) { c.late, c.silent = false, false })
		if _, err := s.Commit(t.Context(), record.Op{Kind: record.Absent, Key: "second"}); err != nil {
			t.Fatal(err)
		}
		c.deliver()
		synctest.Wait()
		if r, err := stores[0].List(t.Context(), ""); len(r) != 0 || err != nil {
			t.Errorf("got %+v, %v: an earlier commit took effect", r, err)
		}
	})
}

// stray is a client whose first write is delivered late. If away is set, further writes
// fail.
type stray struct {
	*client
	first []leases.Change
	away  bool
}

func (s *stray) Write(ctx context.Context, changes ...leases.Change) (uint64, error) {
	var err error
	s.set(func(*client) {
		switch {
		case s.first == nil:
			s.first, err = changes, record.ErrUnknownOutcome
		case s.away:
			err = record.ErrNoQuorum
		}
	})
	if err != nil {
		return 0, err
	}
	return s.client.Write(ctx, changes...)
}

// The request that creates a lease arrives after the end of that lease. It must not create a lease
// under which old records are trusted.
func TestLeaseIsMadeLate(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		c := &stray{client: &client{service: clients[0].service}}
		cfg := leases.Config{Member: "stray", LeaseTimeout: leaseTimeout}
		s, err := leases.Open(t.Context(), c, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		set := record.Op{Kind: record.SetOwned, Key: "k"}
		a, b := s.Session(nil), stores[0].Session(nil)
		old, err := a.Commit(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		c.set(func(fake *client) { fake.deaf, c.away = true, true })
		time.Sleep(2 * leaseTimeout)
		if _, err := c.service.write(c.first); err != nil {
			t.Log(err)
		}
		token, err := b.Commit(t.Context(), record.Op{Kind: record.Absent, Key: "k"}, set)
		if err != nil {
			t.Fatal(err)
		}
		err = RunHeld(t.Context(), b, "k", token, func(context.Context) error {
			c.set(func(*client) { c.away = false })
			return RunHeld(t.Context(), a, "k", old, func(context.Context) error {
				t.Error("two hold it")
				return nil
			})
		})
		if !errors.Is(err, record.ErrNotHeld) {
			t.Errorf("Hold: got %v, want ErrNotHeld", err)
		}
	})
}

// Close returns when its context is done.
func TestLeaseClosedWhileItIsRenewed(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		s := stores[0].Session(nil)
		token, err := s.Commit(t.Context(), record.Op{Kind: record.SetOwned, Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		clients[0].set(func(c *client) { c.cut = true })
		time.Sleep(leaseTimeout)
		clients[0].set(func(c *client) { c.cut, c.delay = false, time.Hour })
		go func() { _ = RunHeld(t.Context(), s, "k", token, nil) }()
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		at := time.Now()
		if err := stores[0].Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: got %v, want the end of its context", err)
		}
		if took := time.Since(at); took > time.Second {
			t.Errorf("Close took %v, want a second", took)
		}
	})
}

// refusing is a client whose writes to names with a prefix fail.
type refusing struct {
	*client
	name   string
	err    error
	writes int
}

func (r *refusing) Write(ctx context.Context, changes ...leases.Change) (uint64, error) {
	var err error
	r.set(func(*client) {
		refused := slices.ContainsFunc(changes, func(c leases.Change) bool {
			return r.name != "" && strings.HasPrefix(c.Name, r.name)
		})
		if !refused {
			return
		}
		if r.writes++; r.writes > 1000 { // lets the test end
			err = errors.New("recordtest: asked too often")
			return
		}
		err = r.err
	})
	if err != nil {
		return 0, err
	}
	return r.client.Write(ctx, changes...)
}

// After a persistent conflict, such as a deleted parent, the Store pauses before it tries
// again.
func TestLeaseConflictsForEver(t *testing.T) {
	for _, name := range []string{"records/", "leases/"} {
		inService(t, 1, func(t *testing.T, clients []*client, _ []*leases.Store) {
			c := &refusing{client: clients[0]}
			cfg := leases.Config{Member: "refused", LeaseTimeout: leaseTimeout}
			s, err := leases.Open(t.Context(), c, cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), 2*leaseTimeout)
			defer stop()
			c.set(func(*client) { c.name, c.err = name, record.ErrConflict })
			_, err = s.Session(nil).Commit(ctx, record.Op{Kind: record.Set, Key: "k"})
			if !errors.Is(err, record.ErrNoQuorum) {
				t.Errorf("Commit: got %v, want ErrNoQuorum", err)
			}
			_ = s.Close(ctx)
			if c.writes > 500 {
				t.Errorf("%s: asked %d times in %v", name, c.writes, 2*leaseTimeout)
			}
		})
	}
}

// lagging is a client whose reads take a second and whose next write may hang. Like the
// ZooKeeper client, it completes a write even if the caller has given up.
type lagging struct {
	*client
	hangs bool
}

func (s *lagging) Read(ctx context.Context, names ...string) ([]leases.Entry, error) {
	time.Sleep(time.Second)
	return s.client.Read(ctx, names...)
}

func (s *lagging) Write(ctx context.Context, changes ...leases.Change) (uint64, error) {
	var hangs bool
	s.set(func(*client) { hangs, s.hangs = s.hangs, false })
	if hangs {
		<-ctx.Done()
		return 0, record.ErrUnknownOutcome
	}
	if ctx.Err() != nil {
		_, _ = s.write(changes)
		return 0, record.ErrUnknownOutcome
	}
	return s.client.Write(ctx, changes...)
}

func openLagging(t *testing.T, all *service) (*lagging, *leases.Store) {
	t.Helper()
	c := &lagging{client: &client{service: all}}
	s, err := leases.Open(t.Context(), c, leases.Config{Member: "lagging", LeaseTimeout: leaseTimeout})
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// A renewal without an answer leaves time for another renewal.
func TestLeaseRenewalHangs(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, _ []*leases.Store) {
		c, s := openLagging(t, clients[0].service)
		defer s.Close(t.Context())
		led := work(t, new(Exclusive), jobOf(t, s)).next(t)
		for range 3 {
			c.set(func(*client) { c.hangs = true })
			time.Sleep(leaseTimeout)
		}
		if led.ctx.Err() != nil {
			t.Errorf("the context ended: %v", context.Cause(led.ctx))
		}
	})
}

// A concurrent renewal must not recreate the lease after Close.
func TestLeaseClosedWhileItIsMade(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, _ []*leases.Store) {
		c, s := openLagging(t, clients[0].service)
		a := s.Session(nil)
		token, err := a.Commit(t.Context(), record.Op{Kind: record.SetOwned, Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		c.set(func(c *client) { c.cut = true })
		time.Sleep(2 * leaseTimeout) // others remove it
		c.set(func(c *client) { c.cut = false })
		go func() { _ = RunHeld(t.Context(), a, "k", token, nil) }()
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if left, _ := clients[0].named("leases/"); len(left) != 1 {
			t.Errorf("%q are left, want the lease of the other member", left)
		}
	})
}

// If the backend is permanently closed, the Store ends.
func TestLeaseBackendIsClosed(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, _ []*leases.Store) {
		c := &refusing{client: &client{service: clients[0].service}}
		s, err := leases.Open(t.Context(), c, leases.Config{Member: "a", LeaseTimeout: leaseTimeout})
		if err != nil {
			t.Fatal(err)
		}
		a := s.Session(nil)
		token, err := a.Commit(t.Context(), record.Op{Kind: record.SetOwned, Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		err = RunHeld(t.Context(), a, "k", token, func(ctx context.Context) error {
			c.set(func(*client) { c.name, c.err = "leases/", leader.ErrClosed })
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, leader.ErrClosed) {
			t.Errorf("the context ended with %v, want ErrClosed", err)
		}
		if err := s.Close(t.Context()); !errors.Is(err, leader.ErrClosed) {
			t.Errorf("Close: got %v, want why the lease is not removed", err)
		}
	})
}

// While the Store plans a commit under a lease, it wrongly finds that the lease has ended, and
// creates another lease. The committed record must not depend on the first lease, which the Store
// no longer renews.
func TestLeaseSeemsLostMeanwhile(t *testing.T) {
	inService(t, 1, func(t *testing.T, clients []*client, stores []*leases.Store) {
		c, s := openLagging(t, clients[0].service)
		defer s.Close(t.Context())
		a, b := s.Session(nil), stores[0].Session(nil)
		change := func(key string) {
			t.Helper()
			if _, err := b.Commit(t.Context(), record.Op{Kind: record.Set, Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		c.set(func(c *client) { c.deaf = true })
		change("k") // makes the commit read the service
		set := record.Op{Kind: record.SetOwned, Key: "k"}
		var token member.Token
		var all sync.WaitGroup
		all.Go(func() {
			var err error
			if token, err = a.Commit(t.Context(), set); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		c.set(func(c *client) { c.deaf, c.hides = false, "leases/" })
		change("other")
		at := time.Now()
		all.Wait()
		if took := time.Since(at); took > leaseTimeout {
			t.Errorf("the commit took %v: leases are lost that were not shown yet", took)
		}
		err := RunHeld(t.Context(), a, "k", token, func(ctx context.Context) error {
			time.Sleep(2 * leaseTimeout)
			_, err := b.Commit(t.Context(), record.Op{Kind: record.Absent, Key: "k"}, set)
			if err == nil && ctx.Err() == nil {
				t.Error("another member has set it while the context lasts")
			}
			return ctx.Err()
		})
		if err != nil {
			t.Errorf("Hold: %v", err)
		}
	})
}
