// SPDX-License-Identifier: Apache-2.0

// Package etcd keeps the records of jobs (package election of Athena) and locks (package lock) in
// etcd, without a cluster of Athena nodes.
//
//	store, err := etcd.Open(ctx, client, "billing/", etcd.Config{Member: "host-1"})
//	job, err := election.OpenJob(ctx, store, "invoices", election.JobOptions{})
//
// Package internal/leasestore documents how it works and what it guarantees. It uses transactions
// and watches of etcd, but no leases, because no member can be sure when they end.
package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// Config configures a Store.
type Config = leasestore.Config

// Store is the table of records as one member sees it. It has a Close method.
type Store = leasestore.Store

var errEnded = errors.New("the watch ended")

// Open makes this process one of the members that use the keys with this prefix. Nothing else may
// use these keys. It blocks until the other members see this member, or until ctx is done. The
// client must outlive the Store.
func Open(
	ctx context.Context, client *clientv3.Client, prefix string, cfg Config,
) (*Store, error) {
	return leasestore.Open(ctx, backend{client, prefix}, cfg)
}

// backend implements leasestore.Backend. The revision of an entry is the key's ModRevision.
type backend struct {
	client *clientv3.Client
	prefix string
}

func (b backend) Read(ctx context.Context, names ...string) (found []leasestore.Entry, err error) {
	var gets []clientv3.Op
	for _, name := range names {
		gets = append(gets, clientv3.OpGet(b.prefix+name))
	}
	// A transaction without writes is a linearizable read.
	r, err := b.client.Txn(clientv3.WithRequireLeader(ctx)).Then(gets...).Commit()
	if err != nil {
		return nil, b.convertErr(err, record.ErrNoQuorum)
	}
	for _, get := range r.Responses {
		for _, kv := range get.GetResponseRange().Kvs {
			found = append(found, b.entryOf(kv))
		}
	}
	return found, nil
}

func (b backend) Write(ctx context.Context, changes ...leasestore.Change) (uint64, error) {
	var want []clientv3.Cmp
	var then []clientv3.Op
	for _, c := range changes {
		key := b.prefix + c.Name
		switch c.Kind {
		case leasestore.Exists:
			want = append(want, clientv3.Compare(clientv3.ModRevision(key), ">", 0))
			continue
		case leasestore.Check:
		case leasestore.Put:
			then = append(then, clientv3.OpPut(key, string(c.Value)))
		case leasestore.Delete:
			then = append(then, clientv3.OpDelete(key))
		}
		want = append(want, clientv3.Compare(clientv3.ModRevision(key), "=", int64(c.Revision)))
	}
	if err := b.checkConnected(); err != nil {
		return 0, err
	}
	r, err := b.client.Txn(clientv3.WithRequireLeader(ctx)).If(want...).Then(then...).Commit()
	if err != nil {
		return 0, b.convertErr(err, record.ErrUnknownOutcome)
	}
	if !r.Succeeded {
		return 0, fmt.Errorf("etcd: %w", record.ErrConflict)
	}
	return uint64(r.Header.Revision), nil
}

// checkConnected returns an error if the client is not connected and so would not send a write. It
// also starts the next attempt to connect.
func (b backend) checkConnected() error {
	conn := b.client.ActiveConnection()
	state := conn.GetState()
	if state == connectivity.Ready {
		return nil
	}
	conn.Connect()
	conn.ResetConnectBackoff()
	return b.convertErr(fmt.Errorf("the connection is in state %v", state), record.ErrNoQuorum)
}

// Follow reads all keys, and then watches them for later changes. A watch ends if its server loses
// the leader, or if revisions were compacted before they were sent.
func (b backend) Follow(ctx context.Context, see func(bool, []leasestore.Entry)) error {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	r, err := b.client.Get(ctx, b.prefix, clientv3.WithPrefix())
	if err != nil {
		return b.convertErr(err, record.ErrNoQuorum)
	}
	var all []leasestore.Entry
	for _, kv := range r.Kvs {
		all = append(all, b.entryOf(kv))
	}
	see(true, all)
	from := clientv3.WithRev(r.Header.Revision + 1)
	for w := range b.client.Watch(ctx, b.prefix, clientv3.WithPrefix(), from) {
		if err := w.Err(); err != nil {
			return b.convertErr(err, record.ErrNoQuorum)
		}
		var changed []leasestore.Entry
		for _, ev := range w.Events {
			e := b.entryOf(ev.Kv)
			if ev.Type == mvccpb.DELETE {
				e.Revision = 0
			}
			changed = append(changed, e)
		}
		see(false, changed)
	}
	return b.convertErr(cmp.Or(context.Cause(ctx), errEnded), record.ErrNoQuorum)
}

func (b backend) entryOf(kv *mvccpb.KeyValue) leasestore.Entry {
	return leasestore.Entry{
		Name: strings.TrimPrefix(string(kv.Key), b.prefix), Value: kv.Value,
		Revision: uint64(kv.ModRevision),
	}
}

// convertErr converts an error of the client. Unless the server refused the request, the
// result also wraps a more general error.
func (b backend) convertErr(err, otherwise error) error {
	switch {
	case b.client.Ctx().Err() != nil:
		if !errors.Is(otherwise, record.ErrUnknownOutcome) {
			otherwise = leader.ErrClosed
		}
	case errors.Is(err, rpctypes.ErrNoLeader):
		otherwise = record.ErrNoQuorum
	case isRefusal(err):
		return fmt.Errorf("etcd: %w", err)
	}
	return fmt.Errorf("etcd: %w: %w", otherwise, err)
}

// isRefusal reports whether retries fail until an operator intervenes.
func isRefusal(err error) bool {
	code := status.Code(err)
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		code = e.Code()
	}
	switch code {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated,
		codes.ResourceExhausted, codes.FailedPrecondition, codes.Unimplemented:
		return true
	}
	return false
}
