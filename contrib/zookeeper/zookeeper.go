// SPDX-License-Identifier: Apache-2.0

// Package zookeeper lets jobs have leaders (package election of Athena), and mutexes
// (package lock), on the records of a ZooKeeper, without a cluster of their own.
//
//	conn, _, err := zk.Connect(servers, 4*time.Second)
//	store, err := zookeeper.Open(ctx, conn, "/billing", nil, zookeeper.Config{Member: "host-1"})
//	job, err := election.OpenJob(ctx, store, "invoices", election.JobOptions{})
//
// Package internal/leasestore says how, and what it promises. It takes nothing from ZooKeeper but
// transactions and watches: no ephemeral nodes, since a client that is connected to a
// follower cannot tell until when its session lives.
//
// # Nodes
//
// An entry is a node ROOT/leases/NAME or ROOT/records/NAME, with an escaped name, and its
// revision is the node's mzxid. A transaction can only compare the versions of nodes,
// which begin anew when a node is deleted and made again: so each has one child, whose
// name is random, and which is there for as long as that very node is. The data begin
// with its name, and go on in the next line.
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
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/record"
)

// Config says who opens a Store.
type Config = leasestore.Config

// Store is a table of records as one member sees it, with a Close.
type Store = leasestore.Store

// retryInterval is how long to wait before ZooKeeper is asked again.
const retryInterval = 200 * time.Millisecond

// folders are the first parts of the names of entries.
var folders = []string{"records", "leases"}

// Open makes this process a member of those that use the nodes under root, and makes
// these where they are missing. It blocks until others see the member, or ctx ends. The
// nodes are for whom acl says, for everybody where that is nil. The connection must
// outlive the Store, whose watches stay with it, and does not fit many Stores one after
// another. Its session timeout says how soon it turns from a server that is silent to
// another one: a third of the lease's is good.
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

	mu      sync.Mutex
	nodes   map[string]node   // as last seen, by the names of their entries
	watches map[string]*watch // that have not fired, by the paths of their nodes
}

func newBackend(conn *zk.Conn, root string, acl []zk.ACL) *backend {
	return &backend{
		conn: conn, root: path.Join("/", root), acl: acl,
		nodes: map[string]node{}, watches: map[string]*watch{},
	}
}

// node is what a transaction compares.
type node struct {
	revision uint64 // mzxid
	version  int32
	child    string // none where somebody else made the node
}

func (b *backend) makeFolders(ctx context.Context) error {
	for _, folder := range folders {
		if err := b.makeFolder(ctx, path.Join(b.root, folder)); err != nil {
			return err
		}
	}
	return nil
}

// makeFolder makes a node, and those above it, where they are missing. It waits for a
// connection.
func (b *backend) makeFolder(ctx context.Context, folder string) error {
	for {
		exists, err := ask(ctx, func() (bool, error) {
			exists, _, err := b.conn.Exists(folder)
			return exists, err
		})
		if err == nil && !exists {
			if err := b.makeFolder(ctx, path.Dir(folder)); err != nil {
				return err
			}
			_, err = ask(ctx, func() (string, error) { return b.conn.Create(folder, nil, 0, b.acl) })
		}
		if err == nil || errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		if err = failed(err, record.ErrNoQuorum); !errors.Is(err, record.ErrNoQuorum) {
			return err
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			return err
		}
	}
}

// path is that of the node of an entry.
func (b *backend) path(name string) string {
	folder, rest, _ := strings.Cut(name, "/")
	return path.Join(b.root, folder, strings.ReplaceAll(url.PathEscape(rest), ".", "%2E"))
}

// Read waits until the server that is asked has caught up with what was written before.
func (b *backend) Read(ctx context.Context, names ...string) ([]leasestore.Entry, error) {
	var found []leasestore.Entry
	_, err := ask(ctx, func() (string, error) { return b.conn.Sync(b.root) })
	for _, name := range names {
		if err != nil {
			return nil, failed(err, record.ErrNoQuorum)
		}
		var e leasestore.Entry
		if e, err = b.get(ctx, name); e.Revision != 0 {
			found = append(found, e)
		}
	}
	return found, failed(err, record.ErrNoQuorum)
}

// get reads an entry, which may be none.
func (b *backend) get(ctx context.Context, name string) (leasestore.Entry, error) {
	return ask(ctx, func() (leasestore.Entry, error) {
		data, stat, err := b.conn.Get(b.path(name))
		return b.saw(name, data, stat, err)
	})
}

// saw is the entry of a node that was read.
func (b *backend) saw(
	name string, data []byte, stat *zk.Stat, err error,
) (leasestore.Entry, error) {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		b.forget(name)
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

// isChild reports whether a node of ours can have such a child, which rand.Text has named.
func isChild(name string) bool {
	return len(name) == 26 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

func (b *backend) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.nodes, name)
}

// ask does what the client does, which knows no contexts. What it does after ctx has
// ended, nobody learns of.
func ask[T any](ctx context.Context, what func() (T, error)) (T, error) {
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

// failed says what an error of the client means where a request may have been sent:
// otherwise, but for those by which nothing was done.
func failed(err, otherwise error) error {
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
