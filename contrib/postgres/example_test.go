// SPDX-License-Identifier: Apache-2.0

//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/athena-go/athena/contrib/postgres"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
)

// lead does the work of a job while this process leads it, until ctx ends.
func lead(
	ctx context.Context, pool *pgxpool.Pool, host string,
	work func(context.Context, leader.Term) error,
) error {
	store, err := postgres.Open(ctx, pool, "athena", postgres.Config{Member: host})
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

// leadsByReadme runs the code of README.md.
func leadsByReadme(t *testing.T, address string) {
	ctx, stop := context.WithCancel(t.Context())
	err := lead(ctx, connect(t, address), "host-1", func(ctx context.Context, term leader.Term) error {
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
