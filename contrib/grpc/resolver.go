// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// Scheme is the scheme of the targets that a Resolver resolves.
const Scheme = "athena"

// Members is the part of a cluster.Node that a Resolver uses.
type Members interface{ Members() []member.Member }

// Leaders is the leadership to follow: a leader.Candidate or an election.Job. This process does not
// have to run work under it.
type Leaders interface {
	Changes(ctx context.Context) iter.Seq[leader.Holder]
}

// Resolver implements resolver.Builder for rpc.WithResolvers.
type Resolver struct {
	members Members
	leaders Leaders
	address func(member.Member) string
}

// pollInterval is how often a Resolver reads the address of the leader, because the labels of a
// member may change.
const pollInterval = time.Second

// NewResolver returns a Resolver. The function address returns the address of a member's gRPC
// server, for example from its labels, or "" if it is unknown. It must not block.
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
	f := &follower{Resolver: r, conn: conn, ctx: ctx, stop: stop}
	f.running.Go(func() {
		for h := range r.leaders.Changes(ctx) {
			f.setLeader(h)
		}
		if ctx.Err() == nil {
			stop()
			f.mu.Lock()
			defer f.mu.Unlock()
			f.report(leader.ErrClosed)
		}
	})
	f.running.Go(func() {
		for holding.Pause(ctx, nil, pollInterval) == nil {
			f.ResolveNow(resolver.ResolveNowOptions{})
		}
	})
	return f, nil
}

// follower implements resolver.Resolver for one connection.
type follower struct {
	*Resolver
	conn    resolver.ClientConn
	ctx     context.Context // ends with the connection or with the Candidate
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	leader   leader.Holder
	reported string // the last address or error that gRPC received
}

// ResolveNow implements resolver.Resolver.
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

// update passes the address of the leader to gRPC. f.mu must be held.
func (f *follower) update() {
	if f.ctx.Err() != nil {
		return
	}
	if f.leader == (leader.Holder{}) {
		f.report(leader.ErrNoLeader)
		return
	}
	for _, m := range f.members.Members() {
		if m.Address.String() != f.leader.ID {
			continue
		}
		if a := f.address(m); a != "" {
			f.pass(a, []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: a}}}})
			return
		}
	}
	f.report(fmt.Errorf("athena: the address of leader %s is unknown", f.leader.ID))
}

// report makes calls fail. Calls with the option WaitForReady wait instead. Without the empty list
// of endpoints, calls would still go to the former leader.
func (f *follower) report(err error) {
	if f.pass(err.Error(), nil) {
		f.conn.ReportError(err)
	}
}

// pass passes endpoints to gRPC, unless gRPC already has them.
func (f *follower) pass(name string, endpoints []resolver.Endpoint) (changed bool) {
	if f.reported == name {
		return false
	}
	f.reported = name
	_ = f.conn.UpdateState(resolver.State{Endpoints: endpoints}) // fails if the list is empty
	return true
}
