// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// load is both the event and the request type of the benchmarks.
type load struct{ Data []byte }

type loadRequest struct{ Data []byte }

// ownLoad is a load that encodes itself.
type ownLoad struct{ load }

func (l ownLoad) AppendBinary(b []byte) ([]byte, error) { return append(b, l.Data...), nil }

func (l *ownLoad) UnmarshalBinary(b []byte) error {
	l.Data = bytes.Clone(b)
	return nil
}

// countdown closes done when all events have been handled.
type countdown struct {
	left atomic.Int64
	done chan struct{}
}

func (c *countdown) count() {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}

// pair starts two nodes in this process that communicate over UDP on loopback.
func pair(b *testing.B, handled *countdown) (from *Node, to member.Address) {
	b.Helper()
	var cfg Config
	var held []net.PacketConn
	for range 2 {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		cfg.Seeds = append(cfg.Seeds, c.LocalAddr().String())
		held = append(held, c) // keeps the port in use, so that the next node gets another port
	}
	for _, c := range held {
		_ = c.Close()
	}
	cfg.Size, cfg.Secret = 2, []byte(clusterSecret)
	sockets := make(chan error, 2)
	nodes := make([]*Node, 2)
	for i, addr := range cfg.Seeds {
		own := cfg
		own.Addr, own.Receiver = addr, receiver.NewMux()
		receiver.Handle(own.Receiver, func(context.Context, member.Member, load) error {
			handled.count()
			return nil
		})
		receiver.Handle(own.Receiver, func(context.Context, member.Member, ownLoad) error {
			handled.count()
			return nil
		})
		receiver.HandleRequest(own.Receiver,
			func(_ context.Context, _ member.Member, r loadRequest) (loadRequest, error) { return r, nil })
		go func() {
			var err error
			nodes[i], err = Start(b.Context(), own, WithLogger(slog.New(slog.DiscardHandler)))
			sockets <- err
		}()
	}
	for range nodes {
		if err := <-sockets; err != nil {
			b.Fatal(err)
		}
	}
	for _, n := range nodes {
		b.Cleanup(func() { _ = n.Close() })
		if err := n.WaitActive(b.Context(), 2); err != nil {
			b.Fatal(err)
		}
	}
	return nodes[0], nodes[1].cfg.self
}

// processorTime returns the CPU time of this process, that is, of both nodes and the benchmark.
func processorTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatalf("getrusage: %v", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkEvents measures sending events from one node to the handler of another.
func BenchmarkEvents(b *testing.B) {
	events(b, func(data []byte) any { return load{data} })
}

// BenchmarkOwnEvents is like BenchmarkEvents, but with a type that encodes itself.
func BenchmarkOwnEvents(b *testing.B) {
	events(b, func(data []byte) any { return ownLoad{load{data}} })
}

func events(b *testing.B, event func(data []byte) any) {
	for _, size := range []int{64, 1 << 10, 64 << 10} {
		for _, senders := range []int{1, 16} {
			b.Run(fmt.Sprintf("%d/%d", size, senders), func(b *testing.B) {
				handled := countdown{done: make(chan struct{})}
				handled.left.Store(int64(b.N))
				from, to := pair(b, &handled)
				data := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.SetParallelism(max(1, senders/runtime.GOMAXPROCS(0)))
				b.ResetTimer()
				before := processorTime(b)
				send := func() bool {
					err := from.Send(context.Background(), to, event(data))
					if err != nil {
						b.Errorf("Send: %v", err)
					}
					return err == nil
				}
				if senders == 1 {
					for n := b.N; n > 0 && send(); n-- {
					}
				} else {
					b.RunParallel(func(p *testing.PB) {
						for p.Next() && send() {
						}
					})
				}
				if !b.Failed() {
					<-handled.done
				}
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// BenchmarkRequest measures a request to another node, including its answer.
func BenchmarkRequest(b *testing.B) {
	for _, inFlight := range []int{1, 64} {
		b.Run(fmt.Sprint(inFlight), func(b *testing.B) {
			from, to := pair(b, new(countdown))
			event := loadRequest{make([]byte, 1<<10)}
			b.ReportAllocs()
			b.SetParallelism(max(1, inFlight/runtime.GOMAXPROCS(0)))
			b.ResetTimer()
			before := processorTime(b)
			defer func() {
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			}()
			ask := func() bool {
				_, err := Request[loadRequest](context.Background(), from, to, event)
				if err != nil {
					b.Errorf("Request: %v", err)
				}
				return err == nil
			}
			if inFlight == 1 {
				for n := b.N; n > 0 && ask(); n-- {
				}
				return
			}
			b.RunParallel(func(p *testing.PB) {
				for p.Next() && ask() {
				}
			})
		})
	}
}
