// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// Write applies the changes in one transaction.
func (b *backend) Write(
	ctx context.Context, changes ...leasestore.Change,
) (revision uint64, err error) {
	if s := b.conn.State(); (s == zk.StateDisconnected || b.refused.Load()) && b.isClosed(ctx) {
		return 0, fmt.Errorf("zookeeper: the connection is in state %v: %w", s, leader.ErrClosed)
	}
	defer func() { b.refused.Store(errors.Is(err, zk.ErrConnectionClosed)) }()
	var ops []any
	for _, c := range changes {
		n, err := b.nodeFor(ctx, c)
		if err != nil {
			return 0, err
		}
		if c.Kind == leasestore.Delete && n.child == "" {
			others, err := b.deleteChildren(ctx, c.Name)
			if err != nil {
				return 0, err
			}
			ops = append(ops, others...)
		}
		ops = append(ops, b.opsOf(c, n)...)
	}
	if s := b.conn.State(); s != zk.StateHasSession { // the client would send nothing
		return 0, fmt.Errorf("zookeeper: the connection is in state %v: %w", s, record.ErrNoQuorum)
	}
	answers, err := callClient(ctx, func() ([]zk.MultiResponse, error) { return b.conn.Multi(ops...) })
	if err != nil {
		return 0, convertErr(err, record.ErrUnknownOutcome)
	}
	for _, a := range answers {
		if a.Stat != nil { // all written nodes have the same mzxid
			revision = uint64(a.Stat.Mzxid)
		}
	}
	return revision, nil
}

// refusals is the number of requests that only a closed connection refuses one after the other. A
// lost connection fails the requests in progress, and later ones wait for the next connection.
const refusals = 5

// isClosed reports whether the connection was closed permanently, which the client does not report.
// It then refuses all requests immediately, in StateDisconnected, or in StateHasSession if the
// server did not get the request to close the session.
func (b *backend) isClosed(ctx context.Context) bool {
	for range refusals {
		_, err := callClient(ctx, func() (string, error) { return b.conn.Sync(b.root) })
		if !errors.Is(err, zk.ErrConnectionClosed) {
			return false
		}
	}
	return true
}

// deleteChildren returns the operations that delete the children of a node. Another program may
// have replaced our node with its own.
func (b *backend) deleteChildren(ctx context.Context, name string) (ops []any, err error) {
	at := b.nodePath(name)
	children, err := callClient(ctx, func() ([]string, error) {
		children, _, err := b.conn.Children(at)
		return children, err
	})
	for _, child := range children {
		ops = append(ops, &zk.DeleteRequest{Path: path.Join(at, child), Version: -1})
	}
	return ops, convertErr(err, record.ErrNoQuorum)
}

// nodeFor returns the node that the transaction must compare. The node has the revision of the
// change.
func (b *backend) nodeFor(ctx context.Context, c leasestore.Change) (node, error) {
	if c.Revision == 0 || c.Kind == leasestore.Exists {
		return node{}, nil
	}
	b.mu.Lock()
	n := b.nodes[c.Name]
	b.mu.Unlock()
	if n.revision == c.Revision {
		return n, nil
	}
	e, err := b.readEntry(ctx, c.Name)
	if err != nil {
		return node{}, convertErr(err, record.ErrNoQuorum)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n = b.nodes[c.Name]; n.revision != c.Revision {
		return node{}, fmt.Errorf("%w: %s changed from revision %d to revision %d",
			record.ErrConflict, c.Name, c.Revision, e.Revision)
	}
	return n, nil
}

// opsOf returns the operations for a change. To assert that a node does not exist, the operations
// create and delete it. They also set the data of a created node, because only the response to a
// set contains the mzxid.
func (b *backend) opsOf(c leasestore.Change, n node) []any {
	at := b.nodePath(c.Name)
	under := func(child string) string { return at + "/" + child }
	put := func(child string, version int32) any {
		data := c.Value
		if child != "" {
			data = append([]byte(child+"\n"), data...)
		}
		return &zk.SetDataRequest{Path: at, Data: data, Version: version}
	}
	create := func(path string) any { return &zk.CreateRequest{Path: path, Acl: b.acl} }
	remove := func(path string, version int32) any {
		return &zk.DeleteRequest{Path: path, Version: version}
	}
	check := func(path string, version int32) any {
		return &zk.CheckVersionRequest{Path: path, Version: version}
	}
	const anyVersion = -1
	isNone := c.Revision == 0
	var same []any
	if n.child != "" {
		same = append(same, check(under(n.child), anyVersion))
	}
	switch {
	case c.Kind == leasestore.Exists:
		return []any{check(at, anyVersion)}
	case c.Kind == leasestore.Put && isNone:
		child := rand.Text()
		return []any{create(at), create(under(child)), put(child, 0)}
	case c.Kind == leasestore.Put:
		return append(same, put(n.child, n.version))
	case isNone:
		return []any{create(at), remove(at, anyVersion)}
	case c.Kind == leasestore.Delete && n.child != "":
		return []any{remove(under(n.child), anyVersion), remove(at, n.version)}
	case c.Kind == leasestore.Delete:
		return []any{remove(at, n.version)}
	default:
		return append(same, check(at, n.version))
	}
}
