// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zookeeper_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/athena-go/athena/contrib/zookeeper"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// A node that was created by hand is a record. It can be dropped, whatever its data.
func TestByHand(t *testing.T) {
	t.Parallel()
	_, address := start(t)
	c := connect(t, address)
	s := open(t, leaseTimeout, address, "a")
	session := s.Session(nil)
	root := path.Join("/", t.Name(), "records")
	for key, data := range map[string]string{
		"foreign": "by hand", "lines": "two\nlines", "path": "/\n..", "empty": "",
	} {
		err := callConnected(func() error {
			_, err := c.Create(path.Join(root, key), []byte(data), 0, zk.WorldACL(zk.PermAll))
			return err
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"ours", "set"} {
		_, err := session.Commit(t.Context(), record.Op{Kind: record.SetOwned, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		err = callConnected(func() error {
			_, err := c.Set(path.Join(root, key), []byte("by hand"), -1)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	_, err := session.Commit(ctx, record.Op{Kind: record.Set, Key: "set", Value: []byte("v")})
	if err != nil {
		t.Errorf("Set: %v", err)
	}
	for _, key := range []string{"foreign", "lines", "path", "empty", "ours", "set"} {
		if _, err := session.Commit(ctx, record.Op{Kind: record.Drop, Key: key}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if left, err := listChildren(c, root); len(left) != 0 || err != nil {
		t.Errorf("%q are left, %v", left, err)
	}
}

// Deleted folders are recreated.
func TestRootIsDeleted(t *testing.T) {
	t.Parallel()
	_, address := start(t)
	c := connect(t, address)
	s := open(t, leaseTimeout, address, "a")
	j, err := election.OpenJob(t.Context(), s, "job", election.JobOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(t.Context()) }()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	led := 0
	err = j.WhileLeader(ctx, func(ctx context.Context, _ leader.Term) error {
		if led++; led > 1 {
			stop()
			return nil
		}
		if err := remove(c, path.Join("/", t.Name())); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("led %d times: %v", led, err)
	}
}

// remove deletes a node and all its descendants.
func remove(c *zk.Conn, node string) error {
	children, err := listChildren(c, node)
	for _, child := range children {
		err = errors.Join(err, remove(c, path.Join(node, child)))
	}
	gone := callConnected(func() error { return c.Delete(node, -1) })
	if errors.Is(gone, zk.ErrNoNode) {
		gone = nil
	}
	return errors.Join(err, gone)
}

func listChildren(c *zk.Conn, node string) (children []string, err error) {
	err = callConnected(func() error {
		children, _, err = c.Children(node)
		return err
	})
	return children, err
}

// callConnected repeats a call of the client that failed for lack of a connection, which the client
// loses on a busy machine. An earlier call may have succeeded.
func callConnected(call func() error) error {
	for {
		err := call()
		if !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrConnectionClosed) {
			return err
		}
	}
}

// If the connection is closed too early, the store and its jobs end.
func TestConnectionIsClosed(t *testing.T) {
	t.Parallel()
	testConnectionIsClosed(t, func([]byte) bool { return false })
}

// If the server does not get the client's request to close the session, the client keeps its
// connection and refuses all requests.
func TestConnectionIsClosedWithoutTheServer(t *testing.T) {
	t.Parallel()
	testConnectionIsClosed(t, func(packet []byte) bool {
		const header, closeSession = 12, -11 // length, number and kind of the request
		return len(packet) >= header && int32(binary.BigEndian.Uint32(packet[8:])) == closeSession
	})
}

// lossy is a connection that loses some packets. Its writes do not fail: version 1.0.4 of the
// client can otherwise answer a request three times after it was closed, and stop for ever, because
// two answers fill the channel.
type lossy struct {
	net.Conn
	isLost func(packet []byte) bool
}

func (l *lossy) Write(packet []byte) (int, error) {
	if !l.isLost(packet) {
		_, _ = l.Conn.Write(packet)
	}
	return len(packet), nil
}

func testConnectionIsClosed(t *testing.T, isLost func(packet []byte) bool) {
	_, address := start(t)
	var dialed atomic.Pointer[lossy]
	c := connectBy(t, address, func(network, to string, wait time.Duration) (net.Conn, error) {
		c, err := net.DialTimeout(network, to, wait)
		if err != nil {
			return nil, err
		}
		l := &lossy{c, isLost}
		dialed.Store(l)
		return l, nil
	})
	defer func() { dialed.Load().Close() }()
	cfg := leasestore.Config{Member: "a", LeaseTimeout: leaseTimeout}
	s, err := zookeeper.Open(t.Context(), c, t.Name(), nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	j, err := election.OpenJob(t.Context(), s, "job", election.JobOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = j.WhileLeader(t.Context(), func(ctx context.Context, _ leader.Term) error {
		c.Close()
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

// A second Follow reuses the existing watches and misses nothing.
func TestFollowAnew(t *testing.T) {
	t.Parallel()
	_, address := start(t)
	var set atomic.Int64
	c, events, err := zk.Connect([]string{address}, leaseTimeout, zk.WithLogger(silent{}),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			conn, err := net.DialTimeout(network, address, timeout)
			return watching{conn, &set}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Close()
		for range events { // the loop ends when the connection is closed
		}
	}()
	b := zookeeper.NewBackend(c, t.Name())
	follow := func(see func(context.Context, context.CancelFunc)) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err := b.Follow(ctx, func(bool, []leasestore.Entry) { see(ctx, stop) })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Follow: %v", err)
		}
	}
	var revision uint64
	put := func(ctx context.Context) {
		var err error
		revision, err = b.Write(ctx, leasestore.Change{
			Kind: leasestore.Put, Name: "records/k", Revision: revision, Value: []byte("v"),
		})
		if err != nil {
			t.Error(err)
		}
	}
	follow(func(_ context.Context, stop context.CancelFunc) { stop() })
	put(t.Context())
	for range 5 {
		follow(func(_ context.Context, stop context.CancelFunc) { stop() })
	}
	if got := set.Load(); got < 3 || got > 4 {
		t.Errorf("%d watches were set, want one for each folder and for the node, and perhaps "+
			"one in the place of that of the folder, which has changed", got)
	}
	put(t.Context())
	seen := 0
	follow(func(ctx context.Context, stop context.CancelFunc) {
		if seen++; seen < 4 {
			put(ctx)
		} else {
			stop()
		}
	})
}

// watching is a connection that counts the requests that set a watch.
type watching struct {
	net.Conn
	set *atomic.Int64
}

// Write gets one request: its length, number, kind and path, and at the end whether to watch.
func (w watching) Write(p []byte) (int, error) {
	const getData, getChildren = 4, 12
	if len(p) > 12 && p[len(p)-1] == 1 && (p[11] == getData || p[11] == getChildren) {
		w.set.Add(1)
	}
	return w.Conn.Write(p)
}
