// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// BenchmarkConnect measures the time from the first Notify to the arrival of the frame:
// TLS, both greets, and the frame.
func BenchmarkConnect(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		x, y := listen(b, secured(b)), listen(b, secured(b))
		b.StartTimer()
		x.Notify(y.self.Address, []byte("hello"))
		next(b, y.frames[transport.System], "frame")
		b.StopTimer()
		_ = x.Close()
		_ = y.Close()
		b.StartTimer()
	}
}

// BenchmarkForm measures how long five nodes that start simultaneously take until each pair
// has a connection.
func BenchmarkForm(b *testing.B) {
	const size = 5
	for b.Loop() {
		b.StopTimer()
		var nodes []*node
		for range size {
			nodes = append(nodes, listen(b, secured(b)))
		}
		b.StartTimer()
		for _, n := range nodes {
			for _, other := range nodes {
				if other != n {
					n.Notify(other.self.Address, []byte("hello"))
				}
			}
		}
		for _, n := range nodes {
			for range size - 1 {
				next(b, n.frames[transport.System], "frame")
			}
		}
		b.StopTimer()
		for _, n := range nodes {
			_ = n.Close()
		}
		b.StartTimer()
	}
}

// BenchmarkSend measures the rate of custom frames from one sender to one peer.
func BenchmarkSend(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x, y := listen(b, secured(b)), listen(b, secured(b))
			frame := make([]byte, size)
			b.SetBytes(int64(size))
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range b.N {
					<-y.frames[transport.Custom]
				}
			}()
			for range b.N {
				if err := x.Send(b.Context(), y.self.Address, frame); err != nil {
					b.Fatalf("Send: %v", err)
				}
			}
			<-done
		})
	}
}

// BenchmarkIdle measures the processor time and the goroutines of a pair of nodes that each
// send ten heartbeats a second. One round takes two seconds.
func BenchmarkIdle(b *testing.B) {
	before := runtime.NumGoroutine()
	x, y := listen(b, secured(b)), listen(b, secured(b))
	alone := runtime.NumGoroutine()
	x.Notify(y.self.Address, []byte("hello"))
	next(b, y.frames[transport.System], "frame")
	b.ReportMetric(float64(alone-before)/2, "goroutines/node")
	b.ReportMetric(float64(runtime.NumGoroutine()-alone)/2, "goroutines/end")
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	start, used := time.Now(), processorTime(b)
	for range b.N {
		for range 20 {
			<-ticker.C
			exchange(b, x, y.self.Address, y)
			exchange(b, y, x.self.Address, x)
		}
	}
	share := float64(processorTime(b)-used) / float64(time.Since(start)) / 2
	b.ReportMetric(100*share, "%core/node")
}

func exchange(b *testing.B, from *node, to member.Address, receiver *node) {
	from.Notify(to, make([]byte, 100))
	next(b, receiver.frames[transport.System], "heartbeat")
}

func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatalf("getrusage: %v", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
