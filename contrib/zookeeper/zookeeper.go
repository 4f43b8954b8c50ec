// SPDX-License-Identifier: Apache-2.0

// Package zookeeper keeps the records of jobs (package election of Athena) and locks (package lock)
// in ZooKeeper, without a cluster of Athena nodes.
//
//	conn, _, err := zk.Connect(servers, 4*time.Second)
//	store, err := zookeeper.Open(ctx, conn, "/billing", nil, zookeeper.Config{Member: "host-1"})
//	job, err := election.OpenJob(ctx, store, "invoices", election.JobOptions{})
//
// Package internal/leasestore documents how it works and what it guarantees. It uses transactions
// and watches of ZooKeeper, but no ephemeral nodes, because a client that is connected to a
// follower cannot know how long its session lives.
//
// # Nodes
//
// An entry is a node ROOT/leases/NAME or ROOT/records/NAME, with NAME escaped; its revision is the
// mzxid of the node. A transaction can compare only versions, which restart from 0 when a node is
// deleted and recreated. So each node has one child with a random name, which exists until the node
// is deleted. The data of the node is the name of the child, a newline, and the value.
package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/record"
)

// Config configures a Store.
type Config = leasestore.Config

// Store is the table of records as one member sees it. It has a Close method.
type Store = leasestore.Store

// retryInterval is the pause before a request to ZooKeeper is retried.
const retryInterval = 200 * time.Millisecond

// folders are the first components of the names of entries.
var folders = []string{"records", "leases"}

// Open makes this process one of the members that use the nodes under root. It creates these nodes
// if they are missing, with acl, or open to everyone if acl is nil. It blocks until the other
// members see this member, or until ctx is done. The connection must outlive the Store and keeps
// the watches of the Store, so do not open many Stores in turn on one connection. The session
// timeout of the connection determines how soon it leaves a silent server; a third of the
// LeaseTimeout is a good value.
func Open(
	ctx context.Context, conn *zk.Conn, root string, acl []zk.ACL, cfg Config,
) (*Store, error) {
	if acl == nil {
		acl = zk.WorldACL(zk.PermAll)
	}
	b := newBackend(conn, root, acl)
	if err := b.makeFolders(ctx); err != nil {
		return nil, err
	}
	return leasestore.Open(ctx, b, cfg)
}

// backend implements leasestore.Backend.
type backend struct {
	conn *zk.Conn
	root string
	acl  []zk.ACL

	refused atomic.Bool // the last write failed because the connection was lost or closed

	mu      sync.Mutex
	nodes   map[string]node   // nodes as last read, by entry name
	watches map[string]*watch // watches that have not fired, by node path
}

func newBackend(conn *zk.Conn, root string, acl []zk.ACL) *backend {
	return &backend{
		conn: conn, root: path.Join("/", root), acl: acl,
		nodes: map[string]node{}, watches: map[string]*watch{},
	}
}

// node holds the properties of a node that a transaction compares.
type node struct {
	revision uint64 // mzxid
	version  int32
	child    string // empty if another program created the node
}

func (b *backend) makeFolders(ctx context.Context) error {
	for _, folder := range folders {
		if err := b.makeFolder(ctx, path.Join(b.root, folder)); err != nil {
			return err
		}
	}
	return nil
}

// makeFolder creates a node and its missing parents. It waits for a connection.
func (b *backend) makeFolder(ctx context.Context, folder string) error {
	for {
		exists, err := callClient(ctx, func() (bool, error) {
			exists, _, err := b.conn.Exists(folder)
			return exists, err
		})
		if err == nil && !exists {
			if err := b.makeFolder(ctx, path.Dir(folder)); err != nil {
				return err
			}
			_, err = callClient(ctx, func() (string, error) { return b.conn.Create(folder, nil, 0, b.acl) })
		}
		if err == nil || errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		if err = convertErr(err, record.ErrNoQuorum); !errors.Is(err, record.ErrNoQuorum) {
			return err
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			return err
		}
	}
}

// nodePath returns the path of the node of an entry.
func (b *backend) nodePath(name string) string {
	folder, rest, _ := strings.Cut(name, "/")
	return path.Join(b.root, folder, strings.ReplaceAll(url.PathEscape(rest), ".", "%2E"))
}

// Read first waits until the server has caught up with all earlier writes.
func (b *backend) Read(ctx context.Context, names ...string) ([]leasestore.Entry, error) {
	var found []leasestore.Entry
	_, err := callClient(ctx, func() (string, error) { return b.conn.Sync(b.root) })
	for _, name := range names {
		if err != nil {
			return nil, convertErr(err, record.ErrNoQuorum)
		}
		var e leasestore.Entry
		if e, err = b.readEntry(ctx, name); e.Revision != 0 {
			found = append(found, e)
		}
	}
	return found, convertErr(err, record.ErrNoQuorum)
}

// readEntry reads an entry, which may not exist.
func (b *backend) readEntry(ctx context.Context, name string) (leasestore.Entry, error) {
	return callClient(ctx, func() (leasestore.Entry, error) {
		data, stat, err := b.conn.Get(b.nodePath(name))
		return b.storeNode(name, data, stat, err)
	})
}

// storeNode stores a node that was read, and returns its entry.
func (b *backend) storeNode(
	name string, data []byte, stat *zk.Stat, err error,
) (leasestore.Entry, error) {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		b.forgetNode(name)
		return leasestore.Entry{Name: name}, nil
	case err != nil:
		return leasestore.Entry{}, err
	}
	child, value, _ := bytes.Cut(data, []byte("\n"))
	if !isChild(string(child)) {
		child, value = nil, data
	}
	n := node{revision: uint64(stat.Mzxid), version: stat.Version, child: string(child)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[name] = n
	return leasestore.Entry{Name: name, Value: value, Revision: n.revision}, nil
}

// isChild reports whether rand.Text could have returned the name.
func isChild(name string) bool {
	return len(name) == 26 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

func (b *backend) forgetNode(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.nodes, name)
}

// callClient makes a call of the client, which takes no context. If ctx is done first, it discards
// the result of the call.
func callClient[T any](ctx context.Context, what func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := what()
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// convertErr converts an error of the client. Unless the server refused the request, the
// result also wraps a more general error.
func convertErr(err, otherwise error) error {
	for _, known := range []struct{ err, means error }{
		{zk.ErrNoNode, record.ErrConflict},
		{zk.ErrNodeExists, record.ErrConflict},
		{zk.ErrBadVersion, record.ErrConflict},
		{zk.ErrNoServer, record.ErrNoQuorum},
		{zk.ErrSessionExpired, record.ErrNoQuorum},
		{zk.ErrSessionMoved, record.ErrNoQuorum},
	} {
		if errors.Is(err, known.err) {
			return fmt.Errorf("zookeeper: %w: %w", known.means, err)
		}
	}
	for _, refusal := range []error{
		zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrInvalidPath, zk.ErrBadArguments,
		zk.ErrNotEmpty,
	} {
		if errors.Is(err, refusal) {
			return fmt.Errorf("zookeeper: %w", err)
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("zookeeper: %w: %w", otherwise, err)
}
