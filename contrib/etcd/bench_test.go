// SPDX-License-Identifier: Apache-2.0

//go:build unix

package etcd_test

import (
	"context"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/athena-go/athena/contrib/etcd"
	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/record"
)

// clients is the number of concurrent clients, which share connections like the nodes of
// BenchmarkRecords in package cluster.
const clients, connections = 200, 5

// lock acquires and releases a lock.
type lock func(context.Context) error

// BenchmarkLocks acquires and releases locks, one per client, on a single etcd that syncs to disk.
// One operation is one lock and one unlock. The benchmark corresponds to BenchmarkRecords.
func BenchmarkLocks(b *testing.B) {
	b.Run("etcd's own", func(b *testing.B) {
		benchmark(b, func(b *testing.B, c *clientv3.Client) func(key string) lock {
			return func(key string) lock {
				s, err := concurrency.NewSession(c)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = s.Close() })
				m := concurrency.NewMutex(s, key)
				return func(ctx context.Context) error {
					if err := m.Lock(ctx); err != nil {
						return err
					}
					return m.Unlock(ctx)
				}
			}
		})
	})
	b.Run("latch", func(b *testing.B) {
		benchmark(b, func(b *testing.B, c *clientv3.Client) func(key string) lock {
			member := leasestore.Config{Member: fmt.Sprintf("%p", c)}
			store, err := etcd.Open(b.Context(), c, "bench/", member)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = store.Close(context.WithoutCancel(b.Context())) })
			return func(key string) lock {
				s := store.Session(nil)
				return func(ctx context.Context) error {
					token, err := s.Commit(ctx, record.Op{Kind: record.Absent, Key: key},
						record.Op{Kind: record.SetOwned, Key: key})
					if err == nil {
						_, err = s.Commit(ctx, record.Op{Kind: record.Held, Key: key, Token: token},
							record.Op{Kind: record.Drop, Key: key})
					}
					return err
				}
			}
		})
	})
}

// benchmark creates the locks before it starts the timer. connected returns a function that creates
// locks on one connection.
func benchmark(b *testing.B, connected func(*testing.B, *clientv3.Client) func(key string) lock) {
	_, addresses := start(b, 1)
	var locks []lock
	for range connections {
		newLock := connected(b, connect(b, addresses...))
		for range clients / connections {
			locks = append(locks, newLock(fmt.Sprint("k/", len(locks))))
		}
	}
	work := make(chan struct{})
	failed := make(chan error, clients)
	for _, l := range locks {
		go func() {
			var err error
			for range work {
				if err == nil {
					err = l(b.Context())
				}
			}
			failed <- err
		}()
	}
	b.ResetTimer()
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	for range clients {
		if err := <-failed; err != nil {
			b.Error(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}
