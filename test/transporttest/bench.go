// SPDX-License-Identifier: Apache-2.0

//go:build unix

package transporttest

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// Open opens the network of a node on a free port of the loopback interface.
type Open func(transport.Config) (network transport.Network, at member.Address, err error)

// benchNode is a node on a real socket, with its handler.
type benchNode struct {
	*mesh.Mesh
	self   member.Identity
	frames [transport.Kinds]chan []byte
}

func startBench(b *testing.B, open Open) *benchNode {
	b.Helper()
	n := &benchNode{}
	for k := range n.frames {
		n.frames[k] = make(chan []byte, 1000)
	}
	var err error
	n.Mesh, err = mesh.New(mesh.Config{
		Encode: encode, Decode: decode, Size: 3,
		Key: func(member.StoreID) storekey.Key { return storeOf(n.self.Address) },
	},
		func(c transport.Config) (transport.Network, error) {
			network, at, err := open(c)
			n.self = defaults(at).greet.From
			return network, err
		})
	if err != nil {
		b.Fatalf("New: %v", err)
	}
	if err := n.Start(n); err != nil {
		b.Fatalf("Start: %v", err)
	}
	b.Cleanup(func() { _ = n.Close() }) // the benchmark may have closed it
	return n
}

func (n *benchNode) Greet() message.Message             { return defaults(n.self.Address).greet }
func (n *benchNode) Needs(member.Address) bool          { return true }
func (n *benchNode) Ask(member.Address, member.StoreID) {}
func (n *benchNode) Greeted(message.Message)            {}
func (n *benchNode) Lost(member.Identity)               {}

func (n *benchNode) StoreOf(peer member.Address) member.StoreID { return storeOf(peer).StoreID() }

func (n *benchNode) System(_ member.Identity, frame []byte) error {
	n.frames[transport.System] <- frame
	return nil
}

func (n *benchNode) Custom(k transport.Kind, _ member.Identity, frame []byte) error {
	n.frames[k] <- slices.Clone(frame)
	return nil
}

func (n *benchNode) Stream(member.Identity, []byte, mesh.BulkStream) {}
func (n *benchNode) Datagram(member.Identity, []byte)                {}

// waitFrame waits for the next frame of a kind.
func (n *benchNode) waitFrame(b *testing.B, k transport.Kind) {
	b.Helper()
	select {
	case <-n.frames[k]:
	case <-time.After(10 * time.Second):
		b.Fatalf("the %v frame did not arrive", k)
	}
}

// BenchmarkConnect measures the time from the first Notify to the arrival of the frame: the TLS
// handshake, both greetings, and the frame.
func BenchmarkConnect(b *testing.B, open Open) {
	for b.Loop() {
		b.StopTimer()
		x, y := startBench(b, open), startBench(b, open)
		b.StartTimer()
		x.Notify(y.self.Address, []byte("hello"))
		y.waitFrame(b, transport.System)
		b.StopTimer()
		_ = x.Close()
		_ = y.Close()
		b.StartTimer()
	}
}

// BenchmarkForm starts five nodes simultaneously and measures the time until each pair has a
// connection.
func BenchmarkForm(b *testing.B, open Open) {
	const size = 5
	for b.Loop() {
		b.StopTimer()
		var nodes []*benchNode
		for range size {
			nodes = append(nodes, startBench(b, open))
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
				n.waitFrame(b, transport.System)
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
func BenchmarkSend(b *testing.B, open Open) {
	for _, size := range []int{64, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x, y := startBench(b, open), startBench(b, open)
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

// BenchmarkIdle measures the CPU time and the goroutines of two nodes that each send ten heartbeats
// a second. One round takes two seconds.
func BenchmarkIdle(b *testing.B, open Open) {
	before := runtime.NumGoroutine()
	x, y := startBench(b, open), startBench(b, open)
	alone := runtime.NumGoroutine()
	x.Notify(y.self.Address, []byte("hello"))
	y.waitFrame(b, transport.System)
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

func exchange(b *testing.B, from *benchNode, to member.Address, receiver *benchNode) {
	from.Notify(to, make([]byte, 100))
	receiver.waitFrame(b, transport.System)
}

func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatalf("getrusage: %v", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
