// SPDX-License-Identifier: Apache-2.0

//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/athena-go/athena/contrib/etcd"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/programs"
	"github.com/athena-go/athena/test/recordtest"
)

func TestMain(m *testing.M) {
	recordtest.RunMember(func(ctx context.Context, address, id string) (record.Store, error) {
		c, err := clientv3.New(settings(address))
		if err != nil {
			return nil, err
		}
		return etcd.Open(ctx, c, "crashes/", etcd.Config{Member: id, LeaseTimeout: leaseTimeout})
	})
	goleak.VerifyTestMain(m)
}

// leaseTimeout is the lease timeout in the tests, long enough for a busy machine.
const leaseTimeout = 3 * time.Second

// start starts an etcd cluster and returns its client addresses.
func start(t testing.TB, size int) (servers []*programs.Server, clients []string) {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("etcd is not installed: Debian's etcd-server (make tools)")
	}
	var peers, members []string
	for i := range size {
		clients = append(clients, programs.FreeAddress(t))
		peers = append(peers, programs.FreeAddress(t))
		members = append(members, fmt.Sprintf("%d=http://%s", i, peers[i]))
	}
	c := connect(t, clients...)
	for i := range size {
		dir, client, peer := t.TempDir(), "http://"+clients[i], "http://"+peers[i]
		command := func() *exec.Cmd {
			return exec.Command("etcd", "--data-dir", dir, "--logger", "zap", "--log-level", "warn",
				"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls",
				peer, "--initial-advertise-peer-urls", peer, "--name", fmt.Sprint(i),
				"--initial-cluster", strings.Join(members, ","))
		}
		servers = append(servers, programs.StartServer(t, command, func() error {
			if len(servers) < size/2 {
				return nil // no majority yet
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			_, err := c.Get(ctx, "k")
			return err
		}))
	}
	return servers, clients
}

func settings(addresses ...string) clientv3.Config {
	return clientv3.Config{
		Endpoints: addresses, Logger: zap.NewNop(), DialKeepAliveTime: time.Second,
	}
}

// connect returns a client that is closed when the test ends.
func connect(t testing.TB, addresses ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(settings(addresses...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// open opens a member with its own client, and closes it when the test ends.
func open(t *testing.T, lease time.Duration, id string, addresses ...string) *leasestore.Store {
	t.Helper()
	c := connect(t, addresses...)
	cfg := leasestore.Config{Member: id, LeaseTimeout: lease}
	s, err := etcd.Open(t.Context(), c, t.Name()+"/", cfg)
	if err != nil {
		t.Fatal(err)
	}
	recordtest.CloseAtEnd(t, s)
	return s
}

func TestL32Etcd(t *testing.T) {
	t.Parallel()
	_, clients := start(t, 1)
	recordtest.Suite(t, func(t *testing.T, test func(*testing.T, []record.Store)) {
		t.Parallel()
		var stores []record.Store
		for i := range recordtest.Members {
			stores = append(stores, open(t, recordtest.SuiteLease, fmt.Sprint("n", i), clients...))
		}
		test(t, stores)
	})
}

func TestOutages(t *testing.T) {
	t.Parallel()
	servers, clients := start(t, 1)
	recordtest.Outages(t, servers[0], leaseTimeout, func(t *testing.T, id string) record.Store {
		return open(t, leaseTimeout, id, clients...)
	})
}

func TestCrashes(t *testing.T) {
	t.Parallel()
	_, clients := start(t, 1)
	recordtest.Crashes(t, leaseTimeout, clients[0])
}

// A majority of the servers is killed and restarted.
func TestNoQuorum(t *testing.T) {
	t.Parallel()
	servers, clients := start(t, 3)
	s := open(t, leaseTimeout, "a", clients...)
	session := s.Session(nil)
	set := record.Op{Kind: record.SetOwned, Key: "k"}
	token, err := session.Commit(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	err = recordtest.RunHeld(t.Context(), session, "k", token, func(ctx context.Context) error {
		servers[0].Kill()
		servers[1].Kill()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, leader.ErrLeaseEnded) {
		t.Errorf("the context ended with %v, want ErrLeaseEnded", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), leaseTimeout)
	defer stop()
	_, err = session.Commit(ctx, set)
	if !errors.Is(err, record.ErrNoQuorum) || errors.Is(err, record.ErrUnknownOutcome) {
		t.Errorf("Commit: got %v, want ErrNoQuorum", err)
	}
	servers[0].Start()
	if next, err := session.Commit(t.Context(), set); err != nil || !token.Less(next) {
		t.Errorf("Commit: got %v after %v, %v", next, token, err)
	}
}

func TestCutOff(t *testing.T) {
	t.Parallel()
	_, clients := start(t, 1)
	r := programs.NewRelay(t, clients[0])
	a, b := open(t, leaseTimeout, "a", r.Address()), open(t, leaseTimeout, "b", clients...)
	recordtest.CutOff(t, r, a, b, func() { // etcd compacts revisions that the watch needs
		c := connect(t, clients...)
		now, err := c.Put(t.Context(), "other", "")
		if err == nil {
			_, err = c.Compact(t.Context(), now.Header.Revision)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// If the client is closed too early, the store and its jobs end.
func TestClientIsClosed(t *testing.T) {
	t.Parallel()
	_, clients := start(t, 1)
	c := connect(t, clients...)
	cfg := leasestore.Config{Member: "a", LeaseTimeout: leaseTimeout}
	s, err := etcd.Open(t.Context(), c, "closed/", cfg)
	if err != nil {
		t.Fatal(err)
	}
	j, err := election.OpenJob(t.Context(), s, "job", election.JobOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = j.WhileLeader(t.Context(), func(ctx context.Context, _ leader.Term) error {
		_ = c.Close()
		<-ctx.Done()
		if why := context.Cause(ctx); !errors.Is(why, leader.ErrClosed) {
			t.Errorf("the context ended with %v, want ErrClosed", why)
		}
		return nil
	})
	if !errors.Is(err, leader.ErrClosed) {
		t.Errorf("WhileLeader: got %v, want ErrClosed", err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Errorf("Close of the job: %v", err)
	}
	if err := s.Close(t.Context()); !errors.Is(err, leader.ErrClosed) {
		t.Errorf("Close of the store: got %v, want why its lease is not removed", err)
	}
}
