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
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/athena-go/athena/contrib/postgres"
	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/programs"
	"github.com/athena-go/athena/test/recordtest"
)

func TestMain(m *testing.M) {
	recordtest.RunMember(func(ctx context.Context, address, id string) (record.Store, error) {
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
	database, query, _ := strings.Cut(address, "?")
	return "postgres://postgres@" + database + "?sslmode=disable&" + query
}

// server is a PostgreSQL.
type server struct {
	*programs.Server
	address string   // of its database
	data    string   // the directory with its data
	options []string // of its next start
	command func(program string, args ...string) *exec.Cmd
}

func startServer(t testing.TB, options ...string) *server {
	t.Helper()
	dir, command := programs.NewPostgreSQL(t)
	address := programs.FreeAddress(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		address: address + "/postgres", data: dir + "/data", options: options, command: command,
	}
	pool := connect(t, s.address)
	s.Server = programs.StartServer(t, func() *exec.Cmd {
		args := []string{"-D", s.data, "-k", dir, "-h", host, "-p", port, "-c", "max_connections=300"}
		return command("postgres", append(args, s.options...)...)
	}, func() error { return pool.Ping(t.Context()) })
	return s
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
func open(t *testing.T, lease time.Duration, id, address string) *leasestore.Store {
	t.Helper()
	cfg := leasestore.Config{Member: id, LeaseTimeout: lease}
	s, err := postgres.Open(t.Context(), connect(t, address), tableOf(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	recordtest.CloseAtEnd(t, s)
	return s
}

func TestOutages(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	recordtest.Outages(t, s.Server, leaseTimeout, func(t *testing.T, id string) record.Store {
		return open(t, leaseTimeout, id, s.address)
	})
}

// TestOneServer runs the tests that can share a server, because each start of one is expensive.
func TestOneServer(t *testing.T) {
	t.Parallel()
	address := startServer(t).address
	for name, test := range map[string]func(*testing.T, string){
		"L32": passesSuite, "Crashes": survivesCrashes, "CutOff": survivesCut,
		"Readme": leadsByReadme, "Terminated": survivesTermination,
		"Refusals": reportsRefusals, "NoCounter": changesNothing, "PoolIsClosed": poolIsClosed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, address)
		})
	}
}

func passesSuite(t *testing.T, address string) {
	recordtest.Suite(t, func(t *testing.T, test func(*testing.T, []record.Store)) {
		t.Parallel()
		var stores []record.Store
		for i := range recordtest.Members {
			stores = append(stores, open(t, recordtest.SuiteLease, fmt.Sprint("n", i), address))
		}
		test(t, stores)
	})
}

func survivesCrashes(t *testing.T, address string) {
	recordtest.Crashes(t, leaseTimeout, address)
}

func survivesCut(t *testing.T, address string) {
	server, database, _ := strings.Cut(address, "/")
	r := programs.NewRelay(t, server)
	a, b := open(t, leaseTimeout, "a", r.Address()+"/"+database), open(t, leaseTimeout, "b", address)
	recordtest.CutOff(t, r, a, b, func() {})
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

// If the row that counts the writes is gone, a commit fails and changes nothing.
func changesNothing(t *testing.T, address string) {
	ctx, pool := t.Context(), connect(t, address)
	s := open(t, leaseTimeout, "a", address)
	op := record.Op{Kind: record.Set, Key: "k"}
	if _, err := s.Session(nil).Commit(ctx, op); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "DELETE FROM "+tableOf(t)+" WHERE name = ''"); err != nil {
		t.Fatal(err)
	}
	op.Kind = record.Drop
	if _, err := s.Session(nil).Commit(ctx, op); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("Commit: got %v, want a refusal", err)
	}
	var n int
	count := "SELECT count(*) FROM " + tableOf(t) + " WHERE name LIKE 'records/%'"
	err := pool.QueryRow(ctx, count).Scan(&n)
	if n != 1 || err != nil {
		t.Errorf("%d records after the commit that failed, %v; want 1", n, err)
	}
	if _, err := pool.Exec(ctx, "INSERT INTO "+tableOf(t)+" VALUES ('', '', 1000000)"); err != nil {
		t.Fatal(err)
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
