// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zookeeper_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/athena-go/athena/contrib/zookeeper"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
)

// lead does the work of a job while this process leads it, until ctx ends.
func lead(
	ctx context.Context, servers []string, host string,
	work func(context.Context, leader.Term) error,
) error {
	conn, _, err := zk.Connect(servers, 4*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	store, err := zookeeper.Open(ctx, conn, "/billing", nil, zookeeper.Config{Member: host})
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
	_, address := start(t)
	err := lead(ctx, []string{address}, "host-1", func(ctx context.Context, term leader.Term) error {
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
