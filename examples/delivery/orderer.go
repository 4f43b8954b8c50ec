// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// blockInterval is the time between two blocks.
const blockInterval = 200 * time.Millisecond

// orderer stands for the ordering service. It makes a block every blockInterval. Each client names
// the first block that it needs, and the orderer sends this block and all later blocks.
type orderer struct {
	say   func(format string, args ...any)
	began time.Time

	mu   sync.Mutex
	open map[string]bool // connected members by name
}

// serve accepts connections until ctx ends, and waits until they have ended.
func (o *orderer) serve(ctx context.Context, l net.Listener) {
	var conns sync.WaitGroup
	defer conns.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			return // ctx has ended
		}
		conns.Go(func() { o.deliver(ctx, conn) })
	}
}

// deliver sends blocks until the connection ends.
func (o *orderer) deliver(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	var hello Hello
	in := json.NewDecoder(conn)
	if in.Decode(&hello) != nil {
		return
	}
	o.change(hello, true)
	defer o.change(hello, false)
	go func() { // reads until the end of the connection
		defer cancel()
		_ = in.Decode(&hello)
	}()
	out, next := json.NewEncoder(conn), hello.From
	for tick := time.NewTicker(blockInterval); ctx.Err() == nil; {
		for ; next < o.height(); next++ {
			if out.Encode(Block{next, fmt.Sprint("transactions of block ", next)}) != nil {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (o *orderer) height() int { return int(time.Since(o.began) / blockInterval) }

// change records and prints that a member connected or disconnected.
func (o *orderer) change(h Hello, connected bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	what := "disconnects"
	if delete(o.open, h.Name); connected {
		o.open[h.Name] = true
		what = fmt.Sprint("connects and requests blocks from number ", h.From, " on")
	}
	o.say("ordering service: %s %s; connected: %s", h.Name, what,
		strings.Join(slices.Sorted(maps.Keys(o.open)), " "))
}

// connected returns the connected members, sorted.
func (o *orderer) connected() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.open))
}
