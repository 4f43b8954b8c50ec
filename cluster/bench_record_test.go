// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/record"
)

// several starts nodes in this process that use UDP on loopback and keep their stores on disk.
func several(b *testing.B, size int) []*Node {
	b.Helper()
	cfg := Config{Size: size, Secret: []byte(clusterSecret)}
	var held []net.PacketConn
	for range size {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		cfg.Seeds = append(cfg.Seeds, c.LocalAddr().String())
		held = append(held, c) // keeps the port in use, so that the next node gets another port
	}
	nodes := make([]*Node, size)
	started := make(chan error, size)
	for i, addr := range cfg.Seeds {
		_ = held[i].Close()
		own := cfg
		own.Addr, own.Receiver, own.DataDir = addr, receiver.NewMux(), b.TempDir()
		go func() {
			var err error
			nodes[i], err = Start(b.Context(), own, WithLogger(slog.New(slog.DiscardHandler)))
			started <- err
		}()
	}
	for range size {
		if err := <-started; err != nil {
			b.Fatal(err)
		}
	}
	for _, n := range nodes {
		b.Cleanup(func() { _ = n.Close() })
		if err := n.WaitActive(b.Context(), size); err != nil {
			b.Fatal(err)
		}
	}
	return nodes
}

// BenchmarkRecords measures the time to set a record and then drop it by its token. Clients on five
// nodes do this at the same time, each with its own key.
func BenchmarkRecords(b *testing.B) {
	for _, clients := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			nodes := several(b, 5)
			var next atomic.Int64
			b.SetParallelism(clients)
			before := nodes[0].View()
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				id := int(next.Add(1))
				n := nodes[id%len(nodes)]
				s, key := session(n), fmt.Sprint("k/", id)
				for p.Next() {
					token, err := s.Commit(b.Context(), absent(key), setOwned(key, nil))
					if err == nil {
						_, err = s.Commit(b.Context(), held(key, token), dropped(key))
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			after := nodes[0].View()
			b.ReportMetric(float64(after.Version-before.Version), "elections")
			b.ReportMetric(float64(after.Revision-before.Revision)/float64(b.N), "revisions/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
		})
	}
}

// BenchmarkRecordsOfFullTable is like BenchmarkRecords, but with one client and a table that
// already holds other records.
func BenchmarkRecordsOfFullTable(b *testing.B) {
	for _, table := range []int{0, 250, 1900} {
		b.Run(fmt.Sprintf("records=%d", table), func(b *testing.B) {
			nodes := several(b, 3)
			fill := session(nodes[0])
			for i := 0; i < table; i += 50 {
				var ops []record.Op
				for j := i; j < min(i+50, table); j++ {
					ops = append(ops, setOwned(fmt.Sprintf("full/%06d", j), nil))
				}
				if _, err := fill.Commit(b.Context(), ops...); err != nil {
					b.Fatal(err)
				}
			}
			s := session(nodes[1])
			b.ResetTimer()
			for range b.N {
				token, err := s.Commit(b.Context(), absent("k"), setOwned("k", nil))
				if err == nil {
					_, err = s.Commit(b.Context(), held("k", token), dropped("k"))
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
		})
	}
}
