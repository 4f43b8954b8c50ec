// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zookeeper_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/athena-go/athena/contrib/zookeeper"
	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/programs"
	"github.com/athena-go/athena/test/recordtest"
)

func TestMain(m *testing.M) {
	recordtest.RunMember(func(ctx context.Context, address, id string) (record.Store, error) {
		c, _, err := zk.Connect([]string{address}, leaseTimeout/3, zk.WithLogger(silent{}))
		if err != nil {
			return nil, err
		}
		cfg := leasestore.Config{Member: id, LeaseTimeout: leaseTimeout}
		return zookeeper.Open(ctx, c, "crashes", nil, cfg)
	})
	goleak.VerifyTestMain(m)
}

// leaseTimeout is the lease timeout in the tests, long enough for a busy machine.
const leaseTimeout = 3 * time.Second

// start starts a ZooKeeper and returns its client address.
func start(t *testing.T) (*programs.Server, string) {
	t.Helper()
	const jar, logger = "/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"
	if _, err := os.Stat(jar); err != nil {
		t.Skip("ZooKeeper is not installed: Debian's zookeeper (make tools)")
	}
	dir, address := t.TempDir(), programs.FreeAddress(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf("dataDir=%s\nclientPortAddress=%s\nclientPort=%s\ntickTime=200\n"+
		"maxClientCnxns=0\nadmin.enableServer=false\n", dir, host, port)
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func() *exec.Cmd {
		return exec.Command("java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", jar+":"+logger,
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	}
	c := connect(t, address)
	return programs.StartServer(t, command, func() error {
		if s := c.State(); s != zk.StateHasSession {
			return fmt.Errorf("the connection is in state %v", s)
		}
		return nil
	}), address
}

// silent is a logger without output.
type silent struct{}

func (silent) Printf(string, ...any) {}

// connect returns a connection that is closed when the test ends.
func connect(t testing.TB, address string) *zk.Conn {
	t.Helper()
	return connectBy(t, address, net.DialTimeout)
}

func connectBy(t testing.TB, address string, dial zk.Dialer) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{address}, leaseTimeout/3, zk.WithLogger(silent{}),
		zk.WithDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for range events { // the loop ends when the connection is closed
		}
	})
	return c
}

// open opens a member with its own connection, and closes it when the test ends.
func open(t *testing.T, lease time.Duration, address, id string) *leasestore.Store {
	t.Helper()
	c := connect(t, address)
	cfg := leasestore.Config{Member: id, LeaseTimeout: lease}
	s, err := zookeeper.Open(t.Context(), c, t.Name(), nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	recordtest.CloseAtEnd(t, s)
	return s
}

func TestL32ZooKeeper(t *testing.T) {
	t.Parallel()
	_, address := start(t)
	recordtest.Suite(t, func(t *testing.T, test func(*testing.T, []record.Store)) {
		t.Parallel()
		var stores []record.Store
		for i := range recordtest.Members {
			stores = append(stores, open(t, recordtest.SuiteLease, address, fmt.Sprint("n", i)))
		}
		test(t, stores)
	})
}

func TestOutages(t *testing.T) {
	t.Parallel()
	s, address := start(t)
	recordtest.Outages(t, s, leaseTimeout, func(t *testing.T, id string) record.Store {
		return open(t, leaseTimeout, address, id)
	})
}

func TestCrashes(t *testing.T) {
	t.Parallel()
	_, address := start(t)
	recordtest.Crashes(t, leaseTimeout, address)
}

func TestCutOff(t *testing.T) {
	t.Parallel()
	_, address := start(t)
	r := programs.NewRelay(t, address)
	// During the pause its session expires, and its watches with it.
	a, b := open(t, leaseTimeout, r.Address(), "a"), open(t, leaseTimeout, address, "b")
	recordtest.CutOff(t, r, a, b, func() {})
}
