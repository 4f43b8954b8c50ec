// SPDX-License-Identifier: Apache-2.0

package latch_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/athena-go/athena/latch"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// move leads a job in a store while it leads it in another one too, which is to go.
func move(
	ctx context.Context, from, to record.Store, name string, work func(context.Context, member.Token),
) error {
	old, err := latch.Open(ctx, from, name, latch.Options{})
	if err != nil {
		return err
	}
	err = old.WhileLeader(ctx, func(ctx context.Context, _ member.Token) {
		job, err := latch.Open(ctx, to, name, latch.Options{})
		if err != nil {
			return // and again
		}
		_ = job.WhileLeader(ctx, work)
		_ = job.Close(context.WithoutCancel(ctx))
	})
	return errors.Join(err, old.Close(context.WithoutCancel(ctx)))
}

func Example_move() {
	ctx, enough := context.WithCancel(context.Background())
	from, to := record.NewMemory().Store("host-1"), record.NewMemory().Store("host-1")
	err := move(ctx, from, to, "billing", func(ctx context.Context, token member.Token) {
		for _, s := range []record.Store{from, to} {
			records, _ := s.List(ctx, "latch/billing/leader")
			fmt.Println("led by", string(records[0].Value))
		}
		enough()
	})
	fmt.Println(err)
	// Output:
	// led by host-1
	// led by host-1
	// context canceled
}
