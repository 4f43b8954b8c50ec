// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"sync"
)

// group is the sending side of a broadcast.
type group struct {
	receivers []*receiverProcess
	send      func(p []byte) error // to all
	flush     func() error         // waits until everything sent is on the network
	close     func()
}

// broadcastMembers is the number of receivers.
const broadcastMembers = 4

// runBroadcast measures messages from one process to four, and prints a row.
func runBroadcast(s senderSetup) error {
	peer, err := findMessagePeer(s.Peer)
	if err != nil {
		return err
	}
	g, err := peer.group(peer, broadcastMembers)
	if err != nil {
		return err
	}
	defer g.stop()
	if _, err := g.measure(s); err != nil { // the warm-up
		return err
	}
	r, err := g.measure(s)
	if err != nil {
		return err
	}
	return printRow(r)
}

// measure sends for some time and waits until all receivers have handled everything.
func (g *group) measure(s senderSetup) (row, error) {
	before := make([]usage, len(g.receivers))
	for i, r := range g.receivers {
		var err error
		if before[i], err = r.usage(); err != nil {
			return nil, err
		}
	}
	stop, err := s.profile(g.receivers[0], "broadcast")
	if err != nil {
		return nil, err
	}
	cpu := processorTime()
	n, began, err := sendForDuration(1, s.For, mediumBytes, func(_ int, p []byte) error {
		stampEvent(p, oneWay, 0)
		return g.send(p)
	})
	if err == nil {
		err = g.flush()
	}
	if err != nil {
		return nil, err
	}
	var last int64
	for i, r := range g.receivers {
		after, err := r.waitForCount(before[i].Count + n)
		if err != nil {
			return nil, fmt.Errorf("receiver %d: %w", i+1, err)
		}
		last = max(last, after.Last)
		cpu -= after.CPU - before[i].CPU
	}
	cpu = processorTime() - cpu
	if err := stop(); err != nil {
		return nil, err
	}
	return row{
		"bytes": mediumBytes, "members": len(g.receivers),
		"msgs_s":            float64(n) / (float64(last-began) / 1e9),
		"cpu_s_per_million": float64(cpu) / 1e3 / float64(n),
	}, nil
}

func (g *group) stop() {
	g.close()
	for _, r := range g.receivers {
		r.close()
	}
}

// startReceivers starts the receivers of a broadcast.
func (g *group) startReceivers(s receiverSetup, members int) error {
	for i := range members {
		s.Index, s.Members = i+1, members
		r, err := startReceiver(s)
		if err != nil {
			return fmt.Errorf("receiver %d: %w", i+1, err)
		}
		g.receivers = append(g.receivers, r)
	}
	return nil
}

// queueCapacity is the number of messages that wait for one member.
const queueCapacity = 1024

// queueGroup broadcasts for peers that have no broadcast. Each member has a client, and a goroutine
// that sends the messages in a queue. This was faster than a single goroutine that sends to all
// members in turn.
func queueGroup(p messagePeer, members int) (*group, error) {
	g := &group{close: func() {}}
	if err := g.startReceivers(receiverSetup{Peer: p.name}, members); err != nil {
		g.stop()
		return nil, err
	}
	var q queues
	for _, r := range g.receivers {
		c, err := p.dial(r.address, 1)
		if err != nil {
			g.stop()
			return nil, err
		}
		q.add(c)
	}
	g.send, g.flush, g.close = q.send, q.flush, q.close
	return g, nil
}

// queues holds the clients, each with a queue.
type queues struct {
	clients []client
	waiting []chan []byte
	pending sync.WaitGroup // messages in the queues

	mu  sync.Mutex
	err error // the first one
}

func (q *queues) add(c client) {
	messages := make(chan []byte, queueCapacity)
	q.clients, q.waiting = append(q.clients, c), append(q.waiting, messages)
	go func() {
		for p := range messages {
			if err := c.send(0, p); err != nil {
				q.fail(err)
			}
			q.pending.Done()
		}
	}()
}

func (q *queues) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
}

// send queues a message for each member. All members share its bytes, which do not change.
func (q *queues) send(p []byte) error {
	q.pending.Add(len(q.waiting))
	for _, w := range q.waiting {
		w <- p
	}
	return nil
}

func (q *queues) flush() error {
	q.pending.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	errs := []error{q.err}
	for _, c := range q.clients {
		errs = append(errs, c.flush())
	}
	return errors.Join(errs...)
}

func (q *queues) close() {
	for i, c := range q.clients {
		close(q.waiting[i])
		c.close()
	}
}
