// SPDX-License-Identifier: Apache-2.0

//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/contrib/postgres"
	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/programs"
)

// An administrator ends all connections, some of them after the server has committed and before it
// has answered.
func survivesTermination(t *testing.T, address string) {
	admin := connect(t, address)
	accountForCommits(t, open(t, leaseTimeout, "a", address), func() {
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
			_ = holding.Pause(t.Context(), nil, 20*time.Millisecond)
			// Only connections of this member have a query with the name of this table.
			_, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid()`, tableOf(t))
			if err != nil {
				t.Errorf("pg_terminate_backend: %v", err)
			}
		}
	})
}

// TestServerEnds ends the server and the network in the midst of commits, in every way. The server
// would commit asynchronously and lose commits if the store did not override that.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	s := startServer(t, "-c", "synchronous_commit=off", "-c", "wal_writer_delay=10s")
	_, err := connect(t, s.address).Exec(t.Context(),
		"ALTER ROLE postgres SET synchronous_commit = off")
	if err != nil {
		t.Fatal(err)
	}
	address, database, _ := strings.Cut(s.address, "/")
	r := programs.NewRelay(t, address)
	stop := func(mode string) func() {
		return func() {
			out, err := s.command("pg_ctl", "stop", "-D", s.data, "-m", mode).CombinedOutput()
			if err != nil {
				t.Errorf("pg_ctl: %v: %s", err, out)
			}
			s.Kill()
		}
	}
	accountForCommits(t, open(t, leaseTimeout, "a", r.Address()+"/"+database), func() {
		wait := func() { _ = holding.Pause(t.Context(), nil, rand.N(time.Second)) }
		for range 3 {
			for _, end := range []func(){s.Kill, s.KillParent, stop("immediate"), stop("fast")} {
				wait()
				end()
				s.Start()
			}
			wait()
			r.Cut()
			wait()
			r.Heal()
		}
	})
}

// outcomes are those of commits, by key. Each commit sets a record that did not exist.
type outcomes struct {
	sync.Mutex
	made, unknown, failed map[string]bool
}

// commitUntil commits until ctx is done.
func (o *outcomes) commitUntil(ctx context.Context, t *testing.T, s *leasestore.Store, id int) {
	session := s.Session(nil)
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprint("k", id, ".", n)
		within, stop := context.WithTimeout(t.Context(), leaseTimeout/10)
		_, err := session.Commit(within, record.Op{Kind: record.Absent, Key: key},
			record.Op{Kind: record.Set, Key: key})
		stop()
		o.Lock()
		switch {
		case err == nil:
			o.made[key] = true
		case errors.Is(err, record.ErrUnknownOutcome):
			o.unknown[key] = true
		case errors.Is(err, record.ErrNoQuorum):
			o.failed[key] = true
		default:
			t.Errorf("Commit of the new record %q: %v", key, err)
		}
		o.Unlock()
	}
}

// accountForCommits commits while the function disturb runs. Then the records of all commits that
// were made must exist, and no records of commits that failed.
func accountForCommits(t *testing.T, s *leasestore.Store, disturb func()) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := outcomes{
		made: map[string]bool{}, unknown: map[string]bool{}, failed: map[string]bool{},
	}
	var writers sync.WaitGroup
	for id := range 4 {
		writers.Go(func() { o.commitUntil(ctx, t, s, id) })
	}
	disturb()
	stop()
	writers.Wait()
	within, stop := context.WithTimeout(t.Context(), 10*leaseTimeout)
	defer stop()
	err := record.ErrUnknownOutcome
	for errors.Is(err, record.ErrUnknownOutcome) {
		_, err = s.Session(nil).Commit(within, record.Op{Kind: record.Set, Key: "last"})
	}
	if err != nil {
		t.Fatalf("Commit after all: %v", err)
	}
	found, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d commits were made, %d failed, %d have an unknown outcome; %d records exist",
		len(o.made), len(o.failed), len(o.unknown), len(found))
	for _, r := range found {
		if o.failed[r.Key] {
			t.Errorf("the commit of %q failed, but the record exists", r.Key)
		}
		delete(o.made, r.Key)
	}
	if len(o.made) > 0 {
		t.Errorf("%d commits were lost", len(o.made))
	}
	if len(o.unknown) == 0 {
		t.Error("no commit was interrupted")
	}
}

// TestUnfitServers checks that Open refuses, with the reason, what would lose or refuse writes.
func TestUnfitServers(t *testing.T) {
	t.Parallel()
	s := startServer(t, "-c", "fsync=off")
	refuses := func(query, want string) {
		t.Helper()
		_, err := postgres.Open(t.Context(), connect(t, s.address+query), "athena",
			postgres.Config{Member: "a", LeaseTimeout: leaseTimeout})
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, record.ErrNoQuorum) {
			t.Errorf("Open: got %v, want %q", err, want)
		}
	}
	refuses("", "fsync is off")
	s.Kill()
	s.options = nil
	s.Start()
	member := open(t, leaseTimeout, "a", s.address)
	refuses("?default_transaction_read_only=on", "default_transaction_read_only is on")
	s.Kill()
	signal := s.data + "/standby.signal"
	if err := os.WriteFile(signal, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Start()
	refuses("", "the server is a standby")
	// To a member that was open before, a standby is an outage.
	within, stop := context.WithTimeout(t.Context(), leaseTimeout/2)
	defer stop()
	_, err := member.Session(nil).Commit(within, record.Op{Kind: record.Set, Key: "k"})
	if !errors.Is(err, record.ErrNoQuorum) {
		t.Errorf("Commit on a standby: got %v, want ErrNoQuorum", err)
	}
	s.Kill()
	if err := os.Remove(signal); err != nil {
		t.Fatal(err)
	}
	s.Start()
}
