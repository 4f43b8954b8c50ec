// SPDX-License-Identifier: Apache-2.0

// Command cron runs a job in six shards, like ElasticJob. The shards are spread over the active
// members, and each member runs its own shards. Run it with
//
//	go run -C examples/cron .
//
// Three members run in this process, on the UDP ports 7201 to 7203 of 127.0.0.1. One member
// crashes, and its shards move to the others. The member restarts and takes over some shards. It
// runs each of them only after the other member has stopped. Then another member crashes. The code
// to copy is the function work.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
)

// addresses lists the addresses of the members. All of them are seeds.
var addresses = []string{"127.0.0.1:7201", "127.0.0.1:7202", "127.0.0.1:7203"}

const (
	jobName = "cleanup"
	shards  = 6
	// every is the interval between two runs of a shard.
	every = 250 * time.Millisecond
)

// runShards runs the shards of this member until ctx is done or the node stops. Each shard runs on
// one member at a time, and has its own token.
func runShards(
	ctx context.Context, node *cluster.Node,
	run func(ctx context.Context, shard int, term leader.Term) error,
) error {
	set, err := election.NewShards(node.Records(), jobName, shards)
	if err != nil {
		return err
	}
	return set.Run(ctx, run)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "athena-cron-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s := newStage(os.Stdout, func(ctx context.Context, addr string) (*cluster.Node, error) {
		return cluster.Start(ctx, config(dir, addr), cluster.WithLogger(slog.New(slog.DiscardHandler)))
	})
	if err := s.play(ctx); err != nil {
		log.Print(err)
	}
}

// config returns the configuration of a member. Members differ only in address and directory.
func config(dir, addr string) cluster.Config {
	return cluster.Config{
		Addr: addr, Seeds: addresses, Size: len(addresses), DataDir: filepath.Join(dir, addr),
	}
}

// stage holds the members and their output.
type stage struct {
	out     io.Writer
	start   startFunc
	began   time.Time
	table   table
	running sync.WaitGroup

	mu    sync.Mutex
	nodes map[string]*cluster.Node
}

type startFunc func(ctx context.Context, addr string) (*cluster.Node, error)

func newStage(out io.Writer, start startFunc) *stage {
	return &stage{out: out, start: start, began: time.Now(), nodes: map[string]*cluster.Node{}}
}

func (s *stage) play(ctx context.Context) error {
	defer s.end(ctx)
	for _, addr := range addresses {
		if err := s.begin(ctx, addr); err != nil {
			return err
		}
	}
	if err := s.shown(ctx, 3, ""); err != nil {
		return err
	}
	for _, addr := range addresses[:2] {
		s.say("%s crashes", addr)
		_ = s.nodes[addr].Close() // without any message, like a kill
		if err := s.shown(ctx, 2, addr); err != nil {
			return err
		}
		s.say("%s restarts", addr)
		if err := s.begin(ctx, addr); err != nil {
			return err
		}
		if err := s.shown(ctx, 3, ""); err != nil {
			return err
		}
	}
	return nil
}

// begin starts a member, which works until its node stops.
func (s *stage) begin(ctx context.Context, addr string) error {
	node, err := s.start(ctx, addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.nodes[addr] = node
	s.mu.Unlock()
	say := func(format string, args ...any) {
		if node.Err() == nil { // a crashed member prints nothing
			s.say(addr+" "+format, args...)
		}
	}
	run := func(ctx context.Context, shard int, term leader.Term) error {
		s.table.beginShard(shard, addr)
		defer s.table.endShard(shard)
		say("runs shard %d with token %v", shard, term.Token())
		for tick := time.NewTicker(every); ; {
			select {
			case <-tick.C:
				if err := s.table.add(shard, term.Token()); err != nil {
					return err
				}
			case <-ctx.Done():
				say("stops shard %d: %v", shard, context.Cause(ctx))
				return context.Cause(ctx)
			}
		}
	}
	s.running.Go(func() {
		if err := runShards(ctx, node, run); err != nil {
			say("stops working: %v", err)
		}
	})
	return nil
}

// shown waits until exactly the given number of members run all shards. It then lets the
// shards run, and prints which member runs each shard.
func (s *stage) shown(ctx context.Context, members int, gone string) error {
	for !s.table.runBy(members, gone) {
		pause(ctx, 10*time.Millisecond)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	pause(ctx, 2*time.Second)
	s.say("now\n%v", &s.table)
	return nil
}

func (s *stage) end(ctx context.Context) {
	for _, n := range s.nodes {
		_ = n.Leave(context.WithoutCancel(ctx)) // Leave fails on a crashed member
	}
	s.running.Wait()
}

func (s *stage) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%6.2f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
