// SPDX-License-Identifier: Apache-2.0

//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/athena-go/athena/contrib/postgres"
	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/internal/storetest"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

func TestMain(m *testing.M) {
	storetest.RunMember(func(ctx context.Context, address, id string) (record.Store, error) {
		pool, err := pgxpool.New(ctx, urlOf(address))
		if err != nil {
			return nil, err
		}
		cfg := leasestore.Config{Member: id, LeaseTimeout: leaseTimeout}
		return postgres.Open(ctx, pool, "crashes", cfg)
	})
	goleak.VerifyTestMain(m)
}

// leaseTimeout is the lease timeout in the tests, long enough for a busy machine.
const leaseTimeout = 3 * time.Second

func urlOf(address string) string {
	return "postgres://postgres@" + address + "?sslmode=disable"
}

// start starts a PostgreSQL and returns the address of its database.
func start(t testing.TB) (*storetest.Server, string) {
	t.Helper()
	dir, command := storetest.NewPostgreSQL(t)
	address := storetest.FreeAddress(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	address += "/postgres"
	pool := connect(t, address)
	return storetest.StartServer(t, func() *exec.Cmd {
		return command("postgres", "-D", dir+"/data", "-k", dir, "-h", host, "-p", port,
			"-c", "fsync=off", "-c", "max_connections=300")
	}, func() error { return pool.Ping(t.Context()) }), address
}

// connect returns a pool that is closed when the test ends.
func connect(t testing.TB, address string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), urlOf(address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// tableOf returns the name of a table for the test.
func tableOf(t *testing.T) string {
	return fmt.Sprintf("t%08x", crc32.ChecksumIEEE([]byte(t.Name())))
}

// open opens a member with its own pool, and closes it when the test ends.
func open(t *testing.T, id, address string) *leasestore.Store {
	t.Helper()
	cfg := leasestore.Config{Member: id, LeaseTimeout: leaseTimeout}
	s, err := postgres.Open(t.Context(), connect(t, address), tableOf(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	storetest.CloseAtEnd(t, s)
	return s
}

func TestOutages(t *testing.T) {
	t.Parallel()
	server, address := start(t)
	storetest.Outages(t, server, leaseTimeout, func(t *testing.T, id string) record.Store {
		return open(t, id, address)
	})
}

// TestOneServer runs the tests that can share a server, because each start of one is expensive.
func TestOneServer(t *testing.T) {
	t.Parallel()
	_, address := start(t)
	for name, test := range map[string]func(*testing.T, string){
		"L32": passesSuite, "Crashes": survivesCrashes, "CutOff": survivesCut,
		"Readme": leadsByReadme, "Terminated": survivesTermination,
		"Refusals": reportsRefusals, "PoolIsClosed": poolIsClosed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, address)
		})
	}
}

func passesSuite(t *testing.T, address string) {
	storetest.Suite(t, func(t *testing.T, test func(*testing.T, []record.Store)) {
		t.Parallel()
		var stores []record.Store
		for i := range storetest.Members {
			stores = append(stores, open(t, fmt.Sprint("n", i), address))
		}
		test(t, stores)
	})
}

func survivesCrashes(t *testing.T, address string) {
	storetest.Crashes(t, leaseTimeout, address)
}

func survivesCut(t *testing.T, address string) {
	server, database, _ := strings.Cut(address, "/")
	r := storetest.NewRelay(t, server)
	a, b := open(t, "a", r.Address()+"/"+database), open(t, "b", address)
	storetest.CutOff(t, r, a, b, func() {})
}

// An administrator ends all connections, some of them after the server has committed and before it
// has answered. The store must not report a wrong outcome for any commit.
func survivesTermination(t *testing.T, address string) {
	ctx, admin := t.Context(), connect(t, address)
	s := open(t, "a", address)
	session := s.Session(nil)
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	var killer sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-stopped.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
			// Only connections of this member have a query with the name of this table.
			_, err := admin.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid()`, tableOf(t))
			if err != nil {
				t.Errorf("pg_terminate_backend: %v", err)
			}
		}
	})
	made, unknown := 0, 0
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		key := fmt.Sprint("k", made+unknown)
		_, err := session.Commit(ctx, record.Op{Kind: record.Absent, Key: key},
			record.Op{Kind: record.Set, Key: key})
		switch {
		case err == nil:
			made++
		case errors.Is(err, record.ErrUnknownOutcome):
			unknown++
		default:
			t.Fatalf("Commit of the new record %q: %v", key, err)
		}
	}
	stop()
	killer.Wait()
	t.Logf("%d commits were made, %d have an unknown outcome", made, unknown)
	if _, err := session.Commit(ctx, record.Op{Kind: record.Set, Key: "last"}); err != nil {
		t.Fatal(err)
	}
	for r := range record.Watch(ctx, s, "") {
		if n := len(r); n > 0 && slices.ContainsFunc(r, func(r member.Record) bool {
			return r.Key == "last"
		}) {
			if n < made+1 || n > made+unknown+1 {
				t.Errorf("%d records exist; %d were made, %d are unknown", n, made+1, unknown)
			}
			return
		}
	}
}

// Requests that the server refuses permanently are not reported as an outage.
func reportsRefusals(t *testing.T, address string) {
	ctx, pool := t.Context(), connect(t, address)
	cfg := leasestore.Config{Member: "a", LeaseTimeout: leaseTimeout}
	for _, table := range []string{`a"; DROP`, "absent.t", strings.Repeat("a", 25)} {
		if _, err := postgres.Open(ctx, pool, table, cfg); err == nil ||
			errors.Is(err, record.ErrNoQuorum) {
			t.Errorf("Open of table %q: got %v, want a refusal", table, err)
		}
	}
	s, err := postgres.Open(ctx, pool, "truncated", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "TRUNCATE truncated"); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(ctx, pool, "truncated", cfg); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("Open of a truncated table: got %v, want a refusal", err)
	}
}

// If the pool is closed too early, the store ends.
func poolIsClosed(t *testing.T, address string) {
	pool := connect(t, address)
	s, err := postgres.Open(t.Context(), pool, "closed",
		leasestore.Config{Member: "a", LeaseTimeout: leaseTimeout})
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	_, err = s.Session(nil).Commit(t.Context(), record.Op{Kind: record.Set, Key: "k"})
	if !errors.Is(err, leader.ErrClosed) {
		t.Errorf("Commit: got %v, want ErrClosed", err)
	}
	if err := s.Close(t.Context()); !errors.Is(err, leader.ErrClosed) {
		t.Errorf("Close: got %v, want why its lease is not removed", err)
	}
}
