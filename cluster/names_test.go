// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// named is a network in which names are wrong until a time: for node 2, those of nodes 0 and 1 lead
// to each other's node, and for these, that of node 2 leads nowhere.
type named struct {
	transport.Network
	self  member.Address
	until *atomic.Int64 // in nanoseconds
}

func nameOf(i int) member.Address {
	return member.Address{Host: []string{"db-0", "db-1", "db-2"}[i], Port: 7000}
}

func (n named) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	switch right := time.Now().UnixNano() >= n.until.Load(); {
	case right:
	case n.self != nameOf(2) && to == nameOf(2):
		<-ctx.Done()
		return nil, ctx.Err()
	case n.self == nameOf(2) && to == nameOf(0):
		to = nameOf(1)
	case n.self == nameOf(2):
		to = nameOf(0)
	}
	return n.Network.Dial(ctx, to)
}

// formNamed starts all nodes of a world of three, with names and data directories.
func (w *world) formNamed(until *atomic.Int64) {
	w.t.Helper()
	w.durable()
	w.nodes = make([]*Node, w.size)
	started := make(chan error, w.size)
	for i := range w.nodes {
		go func() {
			var err error
			w.nodes[i], err = w.startNamed(i, until, false)
			started <- err
		}()
	}
	for range w.nodes {
		if err := <-started; err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.nodes[0].WaitActive(w.t.Context(), w.size); err != nil {
		w.t.Fatal(err)
	}
}

// startNamed starts node i of a world whose nodes have names.
func (w *world) startNamed(i int, until *atomic.Int64, joinOnly bool) (*Node, error) {
	cfg := w.config(i, Config{})
	cfg.Seeds, cfg.JoinOnly = nil, joinOnly
	for s := range w.size {
		cfg.Seeds = append(cfg.Seeds, nameOf(s).String())
	}
	cfg.Addr, cfg.Insecure, cfg.InsecureAnywhere = nameOf(i).String(), true, true
	listen := func(transport.Config) (transport.Network, error) {
		n, err := w.net.Listen(nameOf(i))
		return named{n, nameOf(i), until}, err
	}
	return Start(w.t.Context(), cfg, WithTransport(listen), WithClock(time.Now),
		WithLogger(logTo(zerolog.New(w.book))))
}

// TestCrossedNames restarts a member whose DNS has the addresses of the two others exchanged. It
// joins once the records are right. If it may not lead provisionally and they stay wrong, it ends.
func TestCrossedNames(t *testing.T) {
	for _, test := range []struct {
		wrong    time.Duration
		joinOnly bool
		joins    bool
	}{
		{wrong: time.Minute, joins: true},
		{wrong: time.Minute, joinOnly: true, joins: true},
		{wrong: time.Hour, joinOnly: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3)
			defer w.close()
			var until atomic.Int64
			w.formNamed(&until)
			w.end(w.nodes[2])
			begin := time.Now()
			until.Store(begin.Add(test.wrong).UnixNano())
			n, err := w.startNamed(2, &until, test.joinOnly)
			if w.nodes[2] = n; err == nil {
				_, err = n.WaitLeader(t.Context())
			}
			took := time.Since(begin)
			switch {
			case test.joins && (err != nil || took < test.wrong || took > test.wrong+5*time.Second):
				t.Errorf("wrong for %v: got %v after %v, want no error soon after", test.wrong, err, took)
			case !test.joins && (!errors.Is(err, errHopeless) || took < 2*time.Minute ||
				took > 3*time.Minute+5*time.Second):
				t.Errorf("wrong for %v: got %v after %v, want %v after 2 to 3 minutes", test.wrong, err,
					took, errHopeless)
			}
		})
	}
}
