// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/test/children"
)

// Every message begins with its kind and the number of its sender. Both the kind and the number
// count as payload.
const (
	oneWay  = 0
	request = 1
	answer  = 2

	stampBytes = 5
)

func stampEvent(p []byte, what byte, worker int) {
	p[0] = what
	binary.LittleEndian.PutUint32(p[1:stampBytes], uint32(worker))
}

func workerOf(p []byte) int { return int(binary.LittleEndian.Uint32(p[1:stampBytes])) }

// sink counts the one-way messages that a process receives.
type sink struct{ count atomic.Int64 }

// receiverSetup describes the receiving side to its process.
type receiverSetup struct {
	Peer string
	// Index and Members place the receiver in a broadcast: receivers are 1 to Members, and the
	// sender is 0. Members is 0 otherwise.
	Index, Members int
	Server         string // address of the server, if the sender runs one
}

// usage is what a receiver has handled and used so far.
type usage struct {
	Address string // set only in the first usage
	Count   int64
	Last    int64 // monotonic time of the last message, to a millisecond
	CPU     int64 // nanoseconds
	Allocs  uint64
}

// usageOrder is a line that only asks for the usage. Every other line also ends the current profile
// and, unless it is empty, names the file of a new one.
const usageOrder = "usage"

// runReceiver starts the receiving side and prints its usage for every line that it reads.
func runReceiver(s receiverSetup, in io.Reader) error {
	peer, err := findMessagePeer(s.Peer)
	if err != nil {
		return err
	}
	var received sink
	address, err := peer.serve(s, &received)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Peer, err)
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(usage{Address: address}); err != nil {
		return err
	}
	var seen arrivals
	go seen.watch(&received)
	endProfile := func() error { return nil }
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if path := lines.Text(); path != usageOrder {
			if err := endProfile(); err != nil {
				return err
			}
			endProfile = func() error { return nil }
			if path != "" {
				if endProfile, err = startProfile(path); err != nil {
					return err
				}
			}
		}
		u := usage{
			Count: seen.count.Load(), Last: seen.last.Load(), CPU: processorTime(),
			Allocs: readAllocations(),
		}
		if err := out.Encode(u); err != nil {
			return err
		}
	}
	return nil
}

// arrivals is the number of messages at the last check, and the time when it last changed.
type arrivals struct{ count, last atomic.Int64 }

// watch records the arrivals. It polls because reading the clock for each message would cost more
// than handling it.
func (a *arrivals) watch(received *sink) {
	for range time.Tick(time.Millisecond) {
		if n := received.count.Load(); n != a.count.Load() {
			a.last.Store(children.ReadMonotonic())
			a.count.Store(n)
		}
	}
}

// receiverProcess is a process that receives.
type receiverProcess struct {
	address string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

func startReceiver(s receiverSetup) (*receiverProcess, error) {
	cmd, err := children.Command(childVariable, child{Receiver: &s})
	if err != nil {
		return nil, err
	}
	r := &receiverProcess{cmd: cmd}
	if r.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.out = json.NewDecoder(out)
	var first usage
	if err := r.out.Decode(&first); err != nil {
		r.close()
		return nil, fmt.Errorf("the receiver ended: %w", err)
	}
	r.address = first.Address
	return r, nil
}

// usage asks the receiver for its usage.
func (r *receiverProcess) usage() (usage, error) { return r.ask(usageOrder) }

// ask sends a line to the receiver, which answers with its usage.
func (r *receiverProcess) ask(line string) (u usage, err error) {
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		return u, err
	}
	err = r.out.Decode(&u)
	return u, err
}

// stallTimeout is the time without arrivals after which the missing messages count as lost. It is
// long because the machine may be busy.
const stallTimeout = 2 * time.Second

// waitForCount waits until the receiver has handled the given number of messages.
func (r *receiverProcess) waitForCount(count int64) (u usage, err error) {
	var seen int64
	for since := time.Now(); time.Since(since) < stallTimeout; time.Sleep(2 * time.Millisecond) {
		if u, err = r.usage(); err != nil {
			return u, err
		}
		if u.Count >= count {
			return u, nil
		}
		if u.Count != seen {
			seen, since = u.Count, time.Now()
		}
	}
	return u, fmt.Errorf("%w: %d of %d arrived", errLost, u.Count, count)
}

func (r *receiverProcess) close() {
	_ = r.in.Close()
	_ = r.cmd.Process.Kill() // fails only if the process has ended
	_ = r.cmd.Wait()         // the error only reports the kill
}
