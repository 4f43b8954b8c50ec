// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// These are the events and requests. They consist of one []byte. Some are encoded by reflection;
// the others encode themselves, like generated gRPC code.
type (
	athenaEvent    struct{ Data []byte }
	athenaRequest  struct{ Data []byte }
	ownBytes       struct{ Data []byte }
	athenaOwnEvent struct{ ownBytes }
	athenaOwnCall  struct{ ownBytes }
)

// AppendBinary implements encoding.BinaryAppender.
func (o ownBytes) AppendBinary(b []byte) ([]byte, error) { return append(b, o.Data...), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (o *ownBytes) UnmarshalBinary(b []byte) error {
	o.Data = bytes.Clone(b)
	return nil
}

// startMessenger starts one of several members whose stores are in memory.
func startMessenger(
	v athenaVariant, index int, addresses []string, mux *receiver.Mux,
) (*cluster.Node, error) {
	cfg := cluster.DefaultConfig()
	cfg.Size, cfg.Seeds, cfg.Addr = len(addresses), addresses, addresses[index]
	cfg.Secret, cfg.Receiver = athenaSecret(), mux
	return cluster.Start(context.Background(), cfg, v.options()...)
}

func newMux(s *sink, own bool) *receiver.Mux {
	mux := receiver.NewMux()
	if own {
		receiver.Handle(mux, countEvents[athenaOwnEvent](s))
		receiver.HandleRequest(mux, echoRequest[athenaOwnCall])
	} else {
		receiver.Handle(mux, countEvents[athenaEvent](s))
		receiver.HandleRequest(mux, echoRequest[athenaRequest])
	}
	return mux
}

func countEvents[T any](s *sink) func(context.Context, member.Member, T) error {
	return func(context.Context, member.Member, T) error {
		s.count.Add(1)
		return nil
	}
}

func echoRequest[T any](_ context.Context, _ member.Member, request T) (T, error) {
	return request, nil
}

// serveAthena starts the receiving member. The member joins while the sender starts. The address
// lists all members, with the receiver last.
func serveAthena(v athenaVariant, own bool) func(receiverSetup, *sink) (string, error) {
	return func(s receiverSetup, received *sink) (string, error) {
		index, members := max(s.Index, 1), max(s.Members, 1)
		var addresses []string
		for i := range members + 1 {
			addresses = append(addresses, nodeSetup{}.address(i, 0))
		}
		go func() {
			if _, err := startMessenger(v, index, addresses, newMux(received, own)); err != nil {
				fmt.Fprintln(os.Stderr, "peers: athena receiver:", err)
				os.Exit(1)
			}
		}()
		return strings.Join(addresses, ","), nil
	}
}

// athenaClient sends to one member.
type athenaClient struct {
	node *cluster.Node
	to   member.Address
	own  bool
}

func dialAthena(v athenaVariant, own bool) func(string, int) (client, error) {
	return func(address string, _ int) (client, error) {
		return joinAthena(v, own, strings.Split(address, ","))
	}
}

// joinAthena starts the first member and waits until all are active.
func joinAthena(v athenaVariant, own bool, addresses []string) (*athenaClient, error) {
	to, err := member.ParseAddress(addresses[len(addresses)-1])
	if err != nil {
		return nil, err
	}
	n, err := startMessenger(v, 0, addresses, newMux(new(sink), own))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	if err := n.WaitActive(ctx, len(addresses)); err != nil {
		return nil, err
	}
	_, err = n.WaitLeader(ctx)
	return &athenaClient{n, to, own}, err
}

func (c *athenaClient) event(p []byte) any {
	if c.own {
		return athenaOwnEvent{ownBytes{p}}
	}
	return athenaEvent{p}
}

func (c *athenaClient) send(_ int, p []byte) error {
	return c.node.Send(context.Background(), c.to, c.event(p))
}

func (c *athenaClient) call(_ int, p []byte) error {
	var got []byte
	var err error
	if c.own {
		var r athenaOwnCall
		r, err = cluster.Request[athenaOwnCall](context.Background(), c.node, c.to,
			athenaOwnCall{ownBytes{p}})
		got = r.Data
	} else {
		var r athenaRequest
		r, err = cluster.Request[athenaRequest](context.Background(), c.node, c.to, athenaRequest{p})
		got = r.Data
	}
	return checkEcho(len(got), p, err)
}

// checkEcho returns the error of a request, or one about an answer of the wrong length.
func checkEcho(got int, sent []byte, err error) error {
	if err == nil && got != len(sent) {
		return fmt.Errorf("an answer of %d bytes, want %d", got, len(sent))
	}
	return err
}

func (*athenaClient) flush() error { return nil }

func (c *athenaClient) close() { _ = c.node.Close() } // the measurement is over

// groupAthena broadcasts with Node.Broadcast.
func groupAthena(v athenaVariant, own bool) func(messagePeer, int) (*group, error) {
	return func(p messagePeer, members int) (*group, error) {
		g := &group{close: func() {}, flush: func() error { return nil }}
		if err := g.startReceivers(receiverSetup{Peer: p.name}, members); err != nil {
			g.stop()
			return nil, err
		}
		c, err := joinAthena(v, own, strings.Split(g.receivers[0].address, ","))
		if err != nil {
			g.stop()
			return nil, err
		}
		g.close = c.close
		g.send = func(b []byte) error { return c.node.Broadcast(context.Background(), c.event(b)) }
		return g, nil
	}
}
