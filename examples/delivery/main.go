// SPDX-License-Identifier: Apache-2.0

// Command delivery shows the delivery service of Hyperledger Fabric: one member of a network
// connects to the ordering service and sends the blocks to the others. If the network is
// partitioned, each part has its own connection. Run it with
//
//	go run -C examples/delivery .
//
// The ordering service listens on a TCP port. The five members use an in-memory network, which can
// be cut. The connected member crashes. Then the others are partitioned into two pairs. Neither
// pair is a majority. Finally the network heals, and the first member restarts. The code to copy is
// in peer.go.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

const size = 5

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
	if err := newStage(os.Stdout, dial).play(ctx, l); err != nil {
		log.Print(err)
	}
}

// stage holds the members, their network and their output.
type stage struct {
	dial    func(context.Context) (net.Conn, error)
	began   time.Time
	orderer orderer
	network *memnet.Network
	peers   [size]*peer // n1 is the first

	mu  sync.Mutex
	out io.Writer
}

func newStage(out io.Writer, dial func(context.Context) (net.Conn, error)) *stage {
	s := &stage{dial: dial, began: time.Now(), network: memnet.New(), out: out}
	s.orderer = orderer{say: s.say, began: s.began, open: map[string]bool{}}
	return s
}

func (s *stage) play(ctx context.Context, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	var service sync.WaitGroup
	service.Go(func() { s.orderer.serve(ctx, l) })
	defer service.Wait()
	defer stop()
	defer s.end()
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.shown(ctx, "n1"); err != nil {
		return err
	}
	s.say("n1 crashes")
	_ = s.peers[0].node.Close() // without any message, as if killed
	if err := s.shown(ctx, "n2"); err != nil {
		return err
	}
	s.say("the network is partitioned: n2 n3 | n4 n5, neither of which is a majority of %d", size)
	s.between(s.network.Cut)
	if err := s.shown(ctx, "n2", "n4"); err != nil {
		return err
	}
	s.say("the network heals")
	s.between(s.network.Heal)
	if err := s.shown(ctx, "n2"); err != nil {
		return err
	}
	s.say("n1 restarts with an empty state")
	if err := s.join(ctx, 0); err != nil {
		return err
	}
	return s.shown(ctx, "n2")
}

// start starts all members concurrently.
func (s *stage) start(ctx context.Context) error {
	begun := make(chan error, size)
	for i := range s.peers {
		go func() { begun <- s.join(ctx, i) }()
	}
	for range s.peers {
		if err := <-begun; err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) join(ctx context.Context, i int) (err error) {
	s.peers[i], err = join(ctx, s.dial, config(i), cluster.WithClock(time.Now),
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return s.network.Listen(address(i))
		}))
	return err
}

// config sets no DataDir, because nothing depends on the tokens here.
func config(i int) cluster.Config {
	cfg := cluster.Config{
		Addr: address(i).String(), Name: fmt.Sprint("n", i+1), Size: size, Memory: true,
	}
	for seed := range size {
		cfg.Seeds = append(cfg.Seeds, address(seed).String())
	}
	return cfg
}

func address(i int) member.Address {
	return member.Address{Host: "127.0.0.1", Port: uint16(7301 + i)}
}

// between changes all links between the two pairs of members.
func (s *stage) between(change func(from, to member.Address)) {
	for _, i := range []int{1, 2} {
		for _, j := range []int{3, 4} {
			change(address(i), address(j))
			change(address(j), address(i))
		}
	}
}

// shown waits until exactly these members are connected and all running members have the
// blocks. It then lets the members run, and prints the progress of each.
func (s *stage) shown(ctx context.Context, connected ...string) error {
	for !slices.Equal(s.orderer.connected(), connected) || s.behind() {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	line := ""
	for i, p := range s.peers {
		if p.node.Err() == nil {
			line += fmt.Sprintf("  n%d %d", i+1, p.height())
		}
	}
	s.say("blocks:%s", line)
	return nil
}

// behind reports whether a running member lacks more than the newest block.
func (s *stage) behind() bool {
	return slices.ContainsFunc(s.peers[:], func(p *peer) bool {
		return p.node.Err() == nil && p.height() < s.orderer.height()-1
	})
}

func (s *stage) end() {
	for _, p := range s.peers {
		if p != nil {
			_ = p.node.Close()
		}
	}
}

func (s *stage) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%6.2f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
