// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Block is one block of the chain. The ordering service sends a block to a leader, and the leader
// sends it to the other members as an event.
type Block struct {
	Number int
	Data   string
}

// Hello is the first message to the ordering service.
type Hello struct {
	Name string
	From int // the first missing block
}

// Missing requests a block and all later blocks.
type Missing struct{ From int }

// maxAnswer is the maximum number of blocks sent in response to one Missing event.
const maxAnswer = 32

// timing is ten times faster than Fabric's, so that the program can be watched.
func timing() election.Timing {
	return election.Timing{
		Grace: 1500 * time.Millisecond, Sample: 100 * time.Millisecond,
		Alive: time.Second, Campaign: 500 * time.Millisecond, Hold: 6 * time.Second,
	}
}

// peer is a member that keeps the chain.
type peer struct {
	node  *cluster.Node
	group *leader.Candidate
	dial  func(context.Context) (net.Conn, error)

	mu    sync.Mutex
	chain []Block
}

// join starts a member of the election. The function dial connects to the ordering service.
func join(
	ctx context.Context, dial func(context.Context) (net.Conn, error),
	cfg cluster.Config, opts ...cluster.Option,
) (*peer, error) {
	p := &peer{dial: dial}
	rx := receiver.NewMux()
	groups := election.NewGroups(rx)
	receiver.Handle(rx, p.onBlock)
	receiver.Handle(rx, p.onMissing)
	cfg.Receiver = rx
	var err error
	if p.node, err = cluster.Start(ctx, cfg, opts...); err != nil {
		return nil, err
	}
	p.group, err = groups.Open(p.node, "delivery",
		election.Options{Strategy: election.Lowest, Timing: timing(), RetryFor: time.Hour})
	if err != nil {
		return nil, errors.Join(err, p.node.Close())
	}
	// An error only means that the member has stopped.
	go func() { _ = p.group.WhileLeader(ctx, p.deliver) }()
	return p, nil
}

// deliver keeps the connection to the ordering service while this member leads its part of the
// network. If deliver fails, it is called again after a pause. If it keeps failing, another member
// leads. It does not need the token: if two members fetch the same blocks, they only waste a
// connection.
func (p *peer) deliver(ctx context.Context, _ leader.Term) error {
	conn, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the read below
	defer stop()
	hello := Hello{p.node.Self().Name, p.height()}
	if err := json.NewEncoder(conn).Encode(hello); err != nil {
		return err
	}
	for in := json.NewDecoder(conn); ; {
		var b Block
		if err := in.Decode(&b); err != nil {
			return err
		}
		p.add(b)
		for _, m := range p.node.Members() {
			if m.Address != p.node.Self().Address {
				send(ctx, p.node, m.Address, b)
			}
		}
	}
}

// send sends an event to a member that may be unreachable; the member later requests what it has
// missed. send needs BestEffort, because other sends only reach active members. In a part of the
// network without a majority, no member knows which members are active.
func send(ctx context.Context, node *cluster.Node, to member.Address, event any) {
	_ = node.Send(ctx, to, event, cluster.BestEffort())
}

// onBlock adds the next block. If earlier blocks are missing, it requests them instead.
func (p *peer) onBlock(ctx context.Context, from member.Member, b Block) error {
	if !p.add(b) {
		send(ctx, cluster.FromContext(ctx), from.Address, Missing{p.height()})
	}
	return nil
}

// onMissing sends the missing blocks, one event each.
func (p *peer) onMissing(ctx context.Context, from member.Member, m Missing) error {
	for _, b := range p.after(m.From, maxAnswer) {
		send(ctx, cluster.FromContext(ctx), from.Address, b)
	}
	return nil
}

// add appends the next block to the chain. It returns false if blocks before b are missing.
func (p *peer) add(b Block) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.Number == len(p.chain) {
		p.chain = append(p.chain, b)
	}
	return b.Number < len(p.chain)
}

// after returns copies of blocks that begin with the given number, up to a limit.
func (p *peer) after(from, most int) []Block {
	p.mu.Lock()
	defer p.mu.Unlock()
	from = min(max(from, 0), len(p.chain))
	return append([]Block(nil), p.chain[from:min(len(p.chain), from+most)]...)
}

func (p *peer) height() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.chain)
}
