// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/test/children"
	"github.com/athena-go/athena/test/results"
)

var (
	errNothing = errors.New("nothing was sent in such a short time")
	errLost    = errors.New("messages were lost")
)

// client is the sending side of a peer. Each worker makes one call at a time.
type client interface {
	// send sends a message. It may return before the message is on the network.
	send(worker int, p []byte) error
	// call sends a message and waits for its echo.
	call(worker int, p []byte) error
	// flush waits until everything sent is on the network.
	flush() error
	close()
}

// messagePeer is a library for messages.
type messagePeer struct {
	name string
	// serve starts the receiving side and returns its address.
	serve func(receiverSetup, *sink) (address string, err error)
	dial  func(address string, workers int) (client, error)
	// group starts the receivers of a broadcast. It is nil if the broadcast of this peer is not
	// measured.
	group func(p messagePeer, members int) (*group, error)
}

var messagePeers = []messagePeer{
	{"athena", serveAthena(athenaVariant{}, false), dialAthena(athenaVariant{}, false),
		groupAthena(athenaVariant{}, false)},
	{"athena-own", serveAthena(athenaVariant{}, true), dialAthena(athenaVariant{}, true),
		groupAthena(athenaVariant{}, true)},
	{"athena-tls", serveAthena(athenaVariant{tls: true}, false),
		dialAthena(athenaVariant{tls: true}, false), groupAthena(athenaVariant{tls: true}, false)},
	{"athena-own-tls", serveAthena(athenaVariant{tls: true}, true),
		dialAthena(athenaVariant{tls: true}, true), groupAthena(athenaVariant{tls: true}, true)},
	{"grpc-unary", serveGRPC(plain), dialGRPC(plain, false), nil},
	{"grpc-unary-tls", serveGRPC(secure), dialGRPC(secure, false), nil},
	{"grpc-stream", serveGRPC(plain), dialGRPC(plain, true), queueGroup},
	{"grpc-stream-tls", serveGRPC(secure), dialGRPC(secure, true), queueGroup},
	{"nats", serveNATS(plain), dialNATS(plain), groupNATS(plain)},
	{"nats-tls", serveNATS(secure), dialNATS(secure), groupNATS(secure)},
	{"quic", serveQUIC(listenUDP), dialQUIC(listenUDP), queueGroup},
	{"quic-gro", serveQUIC(listenGRO), dialQUIC(listenGRO), queueGroup},
	{"tls", serveTLS, dialTLS, queueGroup},
}

// plain and secure are values of the parameter of peers that support both.
const plain, secure = false, true

func namesOfMessengers() []string {
	return namesOf(messagePeers, func(p messagePeer) string { return p.name })
}

func namesOfBroadcasters() []string {
	all := slices.DeleteFunc(slices.Clone(messagePeers), func(p messagePeer) bool {
		return p.group == nil
	})
	return namesOf(all, func(p messagePeer) string { return p.name })
}

func findMessagePeer(name string) (messagePeer, error) {
	i := slices.IndexFunc(messagePeers, func(p messagePeer) bool { return p.name == name })
	if i < 0 {
		return messagePeer{}, fmt.Errorf("unknown peer %q", name)
	}
	return messagePeers[i], nil
}

const (
	smallBytes  = 64
	mediumBytes = 1 << 10
	largeBytes  = 64 << 10
)

// measureMessages measures each peer in its own pair of processes.
func measureMessages(ctx context.Context, o options, rec *recorder) error {
	for rep := range o.reps {
		for _, name := range namesOfMessengers() {
			s := &senderSetup{name, o.duration, o.profiles}
			if err := runSenders(ctx, o, rec, rep, name, child{Sender: s}); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureBroadcast measures messages from one process to four.
func measureBroadcast(ctx context.Context, o options, rec *recorder) error {
	for rep := range o.reps {
		for _, name := range namesOfBroadcasters() {
			s := &senderSetup{name, o.duration, o.profiles}
			if err := runSenders(ctx, o, rec, rep, name, child{Broadcast: s}); err != nil {
				return err
			}
		}
	}
	return nil
}

// runSenders runs a child that sends, and records the rows that it prints.
func runSenders(
	ctx context.Context, o options, rec *recorder, rep int, peer string, c child,
) error {
	if !o.wants(peer) {
		return nil
	}
	cmd, err := children.Command(childVariable, c)
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := func() { _ = cmd.Process.Kill() } // fails only if the process has ended
	defer context.AfterFunc(ctx, kill)()
	late := time.AfterFunc(longestWait+20*o.duration, kill)
	defer late.Stop()
	var errs []error
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r row
		if json.Unmarshal(lines.Bytes(), &r) == nil { // other lines are printed by a library
			r["peer"], r["rep"] = peer, rep
			errs = append(errs, rec.record(r, nil))
		}
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil { // the child has printed the reason
		errs = append(errs, rec.record(row{"peer": peer, "rep": rep}, err))
	}
	return errors.Join(errs...)
}

// senderSetup describes a measurement to the process that sends.
type senderSetup struct {
	Peer     string
	For      time.Duration // of each case
	Profiles string        // folder for CPU profiles; empty for none
}

// The warm-up before a case lasts for the duration of the case divided by warmUp.
const warmUp = 8

// runSender starts a receiver, measures all cases, and prints a row for each.
func runSender(s senderSetup) error {
	peer, err := findMessagePeer(s.Peer)
	if err != nil {
		return err
	}
	r, err := startReceiver(receiverSetup{Peer: s.Peer})
	if err != nil {
		return err
	}
	defer r.close()
	const mostWorkers = 64
	c, err := peer.dial(r.address, mostWorkers)
	if err != nil {
		return err
	}
	defer c.close()
	for _, bytes := range []int{smallBytes, mediumBytes, largeBytes} {
		if err := s.measureOneWay(c, r, bytes); err != nil { // more senders make little difference
			return fmt.Errorf("%d bytes one way: %w", bytes, err)
		}
	}
	for _, bytes := range []int{smallBytes, mediumBytes} {
		for _, workers := range []int{1, mostWorkers} {
			if err := s.measureCalls(c, r, bytes, workers); err != nil {
				return fmt.Errorf("%d bytes, %d requests in flight: %w", bytes, workers, err)
			}
		}
	}
	return nil
}

// measureOneWay measures messages in one direction.
func (s senderSetup) measureOneWay(c client, r *receiverProcess, bytes int) error {
	send := func(worker int, p []byte) error {
		stampEvent(p, oneWay, worker)
		return c.send(worker, p)
	}
	var printed row
	for _, d := range []time.Duration{s.For / warmUp, s.For} {
		before, err := r.usage()
		if err != nil {
			return err
		}
		stop, err := s.profile(r, fmt.Sprint(bytes, "-oneway"))
		if err != nil {
			return err
		}
		cpu, allocs := processorTime(), readAllocations()
		n, began, err := sendForDuration(1, d, bytes, send)
		if err == nil {
			err = c.flush()
		}
		if err != nil {
			return err
		}
		after, err := r.waitForCount(before.Count + n)
		if err := errors.Join(err, stop()); err != nil {
			return err
		}
		count := float64(n)
		rate := count / (float64(after.Last-began) / 1e9)
		cpu = processorTime() - cpu + after.CPU - before.CPU
		printed = row{
			"bytes": bytes, "workers": 1, "msgs_s": rate, "mb_s": rate * float64(bytes) / 1e6,
			"cpu_s_per_million": float64(cpu) / 1e3 / count,
			"allocs_per_msg":    float64(readAllocations()-allocs+after.Allocs-before.Allocs) / count,
		}
	}
	return printRow(printed)
}

// measureCalls measures requests that are answered with their own contents.
func (s senderSetup) measureCalls(c client, r *receiverProcess, bytes, workers int) error {
	times := make([][]float64, workers)
	call := func(worker int, p []byte) error {
		stampEvent(p, request, worker)
		began := time.Now()
		err := c.call(worker, p)
		times[worker] = append(times[worker], float64(time.Since(began).Nanoseconds())/1e3)
		return err
	}
	if _, _, err := sendForDuration(workers, s.For/warmUp, bytes, call); err != nil {
		return err
	}
	times = make([][]float64, workers)
	before, err := r.usage()
	if err != nil {
		return err
	}
	stop, err := s.profile(r, fmt.Sprint(bytes, "-request-", workers))
	if err != nil {
		return err
	}
	cpu := processorTime()
	n, began, err := sendForDuration(workers, s.For, bytes, call)
	ended := children.ReadMonotonic()
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	cpu = processorTime() - cpu
	after, err := r.usage()
	if err != nil {
		return err
	}
	cpu += after.CPU - before.CPU
	all := slices.Concat(times...)
	slices.Sort(all)
	return printRow(row{
		"bytes": bytes, "workers": workers, "calls_s": float64(n) / (float64(ended-began) / 1e9),
		"p50_us": results.Quantile(all, 0.5), "p99_us": results.Quantile(all, 0.99),
		"calls_cpu_s_per_million": float64(cpu) / 1e3 / float64(n),
	})
}

func printRow(r row) error {
	var line strings.Builder
	err := r.Write(&line)
	fmt.Print(line.String())
	return err
}

// readAllocations returns the number of allocations of this process.
func readAllocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// sendForDuration makes workers call send, one message after another, for some time. It returns the
// number of messages and the time of the first message. The payload is random, because some peers
// compress.
func sendForDuration(
	workers int, d time.Duration, bytes int, send func(worker int, p []byte) error,
) (count, began int64, err error) {
	var over atomic.Bool
	var sent atomic.Int64
	errs := make([]error, workers)
	var running sync.WaitGroup
	start := make(chan struct{})
	for w := range workers {
		running.Go(func() {
			payload := make([]byte, bytes)
			_, _ = rand.NewChaCha8([32]byte{byte(w)}).Read(payload) // never fails
			var n int64
			<-start
			for ; !over.Load() && errs[w] == nil; n++ {
				errs[w] = send(w, payload)
			}
			sent.Add(n)
		})
	}
	began = children.ReadMonotonic()
	close(start)
	time.Sleep(d)
	over.Store(true)
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	if sent.Load() == 0 {
		return 0, 0, errNothing
	}
	return sent.Load(), began, nil
}
