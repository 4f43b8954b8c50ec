// SPDX-License-Identifier: Apache-2.0

//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/athena-go/athena/contrib/etcd"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
)

// lead does the work of a job while this process leads it, until ctx ends.
func lead(
	ctx context.Context, endpoints []string, host string,
	work func(context.Context, leader.Term) error,
) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: time.Second,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	store, err := etcd.Open(ctx, client, "billing/", etcd.Config{Member: host})
	if err != nil {
		return err
	}
	job, err := election.OpenJob(ctx, store, "invoices", election.JobOptions{})
	if err != nil {
		return errors.Join(err, store.Close(context.WithoutCancel(ctx)))
	}
	err = job.WhileLeader(ctx, work)
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	return errors.Join(err, job.Close(end), store.Close(end))
}

// TestLead is the code of README.md.
func TestLead(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	_, clients := start(t, 1)
	err := lead(ctx, clients, "host-1", func(ctx context.Context, term leader.Term) error {
		if term.Token().IsZero() || ctx.Err() != nil {
			t.Errorf("leads with token %v, %v", term.Token(), ctx.Err())
		}
		stop()
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}
