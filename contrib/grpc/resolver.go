// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"google.golang.org/grpc/resolver"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// Scheme is the scheme of the targets that a Resolver resolves.
const Scheme = "athena"

// Members is the part of a cluster.Node that a Resolver uses.
type Members interface{ Members() []member.Member }

// Leaders is the leadership to follow: a leader.Candidate or an election.Job. It needs to run no
// work in this process.
type Leaders interface {
	Changes(ctx context.Context) iter.Seq[leader.Holder]
}

// Resolver implements resolver.Builder for rpc.WithResolvers.
type Resolver struct {
	members Members
	leaders Leaders
	address func(member.Member) string
}

// NewResolver returns a Resolver. The function address returns the address of a member's gRPC
// server, or "" if it has none. It must not block.
func NewResolver(m Members, l Leaders, address func(member.Member) string) *Resolver {
	return &Resolver{m, l, address}
}

// Scheme implements resolver.Builder.
func (r *Resolver) Scheme() string { return Scheme }

// Build implements resolver.Builder.
func (r *Resolver) Build(
	_ resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions,
) (resolver.Resolver, error) {
	ctx, stop := context.WithCancel(context.Background())
	f := &follower{Resolver: r, conn: conn, stop: stop}
	f.running.Go(func() {
		for h := range r.leaders.Changes(ctx) {
			f.setLeader(h)
		}
		if ctx.Err() == nil {
			f.report(leader.ErrClosed)
		}
	})
	return f, nil
}

// follower implements resolver.Resolver for one connection.
type follower struct {
	*Resolver
	conn    resolver.ClientConn
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	leader leader.Holder
}

// ResolveNow implements resolver.Resolver. gRPC calls it when a connection fails: the same leader
// may have another address.
func (f *follower) ResolveNow(resolver.ResolveNowOptions) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.update()
}

// Close implements resolver.Resolver.
func (f *follower) Close() {
	f.stop()
	f.running.Wait()
}

func (f *follower) setLeader(h leader.Holder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = h
	f.update()
}

// update passes the address of the leader on. f.mu must be held.
func (f *follower) update() {
	if f.leader == (leader.Holder{}) {
		f.report(leader.ErrNoLeader)
		return
	}
	for _, m := range f.members.Members() {
		if m.Address.String() != f.leader.ID {
			continue
		}
		if a := f.address(m); a != "" {
			// An error is repeated by gRPC, which calls ResolveNow.
			_ = f.conn.UpdateState(resolver.State{
				Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: a}}}},
			})
			return
		}
	}
	f.report(fmt.Errorf("athena: the address of leader %s is unknown", f.leader.ID))
}

// report makes calls fail, or wait if they wait for readiness. Without the empty list, calls would
// still go to the former leader.
func (f *follower) report(err error) {
	_ = f.conn.UpdateState(resolver.State{})
	f.conn.ReportError(err)
}
