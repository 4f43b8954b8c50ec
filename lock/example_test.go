// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/record"
)

// migrate is called on all members and runs on one at a time.
func migrate(ctx context.Context, s record.Store) error {
	l, err := lock.New(s, "billing/schema")
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	err = l.Do(ctx, func(ctx context.Context, term leader.Term) error {
		fmt.Println("alone:", term.Valid())
		return ctx.Err()
	})
	return errors.Join(err, l.Close(ctx))
}

func Example() {
	s := record.NewMemory().Store("host-1") // in a cluster, use node.Records()
	fmt.Println(migrate(context.Background(), s))
	// Output:
	// alone: true
	// <nil>
}

// A Semaphore admits two callers at a time, in the order in which they came.
func ExampleSemaphore() {
	s, err := lock.NewSemaphore(record.NewMemory().Store("host-1"), "billing/export", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Do(context.Background(), func(ctx context.Context, term leader.Term) error {
		fmt.Println("has a permit:", term.Valid())
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// has a permit: true
	// <nil>
}

// The members read a configuration together, and one that changes it is alone.
func ExampleRWLock() {
	l, err := lock.NewRWLock(record.NewMemory().Store("host-1"), "billing/rates")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	err = l.DoWrite(ctx, func(ctx context.Context, term leader.Term) error {
		fmt.Println("changes the rates")
		return ctx.Err()
	})
	fmt.Println(err)
	err = l.DoRead(ctx, func(ctx context.Context, term leader.Term) error {
		fmt.Println("reads the rates")
		return ctx.Err()
	})
	fmt.Println(err, l.Close(ctx))
	// Output:
	// changes the rates
	// <nil>
	// reads the rates
	// <nil> <nil>
}

// Two callers, usually on two members, begin a phase together and end it together.
func ExampleBarrier() {
	s := record.NewMemory().Store("host-1")
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			b, err := lock.NewBarrier(s, "billing/close-of-month", 2)
			if err != nil {
				fmt.Println(err)
				return
			}
			ctx := context.Background()
			err = b.Do(ctx, func(ctx context.Context) error {
				fmt.Println("both have come")
				return ctx.Err()
			})
			fmt.Println(err, b.Close(ctx))
		})
	}
	all.Wait()
	// Output:
	// both have come
	// both have come
	// <nil> <nil>
	// <nil> <nil>
}
