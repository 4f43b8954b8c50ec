// SPDX-License-Identifier: Apache-2.0

//go:build linux && !previous

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
	"github.com/athena-go/athena/transport/tlsnet"
)

const (
	// lieTick is the interval between two messages of an intruder.
	lieTick = 10 * time.Millisecond
	// disguiseTime is how long an intruder greets from one address.
	disguiseTime = 500 * time.Millisecond
	// lateRun is greater than the incarnation of any node.
	lateRun = 1 << 43
	// raise is by how much the numbers of each lie exceed those of the lie before.
	raise = 1000
)

// intruderMain sends lies until SIGTERM: in turn from its own address, where the nodes hear it as a
// stranger, and from that of a member.
func intruderMain(task string) error {
	w, ctx, err := startClaim(task)
	if err != nil {
		return err
	}
	var all []member.Address
	for _, text := range w.task.Config.Seeds {
		a, err := member.ParseAddress(text)
		if err != nil {
			return err
		}
		all = append(all, a)
	}
	own, err := member.ParseAddress(w.task.Config.Addr)
	if err != nil {
		return err
	}
	known := &knownCluster{}
	for turn := rand.Uint64N(uint64(2 * len(all))); ctx.Err() == nil; turn++ {
		as := own
		if turn%2 == 1 {
			as = all[turn/2%uint64(len(all))]
		}
		if err := w.disguise(ctx, as, all, turn, known); err != nil {
			return err
		}
	}
	return nil
}

// knownCluster is what an intruder has learned from answers.
type knownCluster struct {
	mu    sync.Mutex
	id    member.ClusterID
	claim member.Claim
}

// disguised is a process that knows the secret while it greets from one address, with a store of
// its own.
type disguised struct {
	*mesh.Mesh
	key   storekey.Key
	self  member.Identity
	greet message.Greet
	known *knownCluster
	heard atomic.Uint64 // connections that a node accepted or refused
}

var _ mesh.Handler = (*disguised)(nil)

func (d *disguised) Greet() message.Message { return message.Message{From: d.self, Body: d.greet} }

// System learns the id and the leader of the cluster from answers.
func (d *disguised) System(_ member.Identity, frame []byte) error {
	m, err := wire.Decode(frame)
	if err != nil {
		return err
	}
	d.known.mu.Lock()
	defer d.known.mu.Unlock()
	if !m.Cluster.IsZero() {
		d.known.id = m.Cluster
	}
	if m.Claim.Version > d.known.claim.Version {
		d.known.claim = m.Claim
	}
	return nil
}

func (*disguised) Greeted(message.Message)                              {}
func (*disguised) Needs(member.Address) bool                            { return true }
func (*disguised) StoreOf(member.Address) (none member.StoreID)         { return none }
func (*disguised) Ask(member.Address, member.StoreID)                   {}
func (*disguised) Custom(transport.Kind, member.Identity, []byte) error { return nil }
func (*disguised) Stream(member.Identity, []byte, mesh.BulkStream)      {}
func (*disguised) Datagram(member.Identity, []byte)                     {}
func (*disguised) Lost(member.Identity)                                 {}

// disguise sends lies from one address for a while, and records how many.
func (w *testNode) disguise(
	ctx context.Context, as member.Address, all []member.Address, turn uint64, known *knownCluster,
) error {
	d := &disguised{key: storekey.New(), known: known}
	d.self = member.Identity{
		Address: as, StoreID: d.key.StoreID(), Incarnation: pickOne[uint64](1, lateRun) + turn,
	}
	d.greet = greetingOf(w.task.Config.WithDefaults())
	var err error
	d.Mesh, err = mesh.New(mesh.Config{
		Encode: wire.Encode, Decode: wire.Decode, Size: w.task.Config.Size,
		Key: func(member.StoreID) storekey.Key { return d.key }, Report: d.countAnswer,
	}, w.openIntruder)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Start(d); err != nil {
		return err
	}
	targets := slices.DeleteFunc(slices.Clone(all), func(a member.Address) bool { return a == as })
	sent := uint64(0)
	for end := time.Now().Add(disguiseTime); ctx.Err() == nil && time.Now().Before(end); sent++ {
		to := targets[rand.IntN(len(targets))]
		if frame, err := wire.Encode(d.lie(to, turn+sent)); err != nil {
			return err
		} else if d.Notify(to, frame); waitFor(ctx, lieTick) != nil {
			break
		}
	}
	w.evidence.appendLine(evidence{
		Kind: kindSpoke, To: w.task.Names[as.String()], First: d.heard.Load(), Last: sent,
	})
	return nil
}

// countAnswer counts a connection that a node accepted or refused.
func (d *disguised) countAnswer(r mesh.Report) {
	closed, ok := errors.AsType[*transport.CloseError](r.Err)
	if r.Kind == mesh.ReportConnected || ok && closed.Remote {
		d.heard.Add(1)
	}
}

// openIntruder opens the network on which an intruder listens.
func (w *testNode) openIntruder(c transport.Config) (transport.Network, error) {
	secure, err := quicnet.SecretTLS([][]byte{w.task.Config.Secret}, cluster.DefaultCluster, time.Now)
	if err != nil {
		return nil, err
	}
	c.Addr = w.task.Config.Addr
	c.TLS = func() (*tls.Config, bool, error) { return secure, false, nil }
	if w.task.TLS {
		return tlsnet.Open(c)
	}
	packets, err := quicnet.Listen(c.Addr)
	if err != nil {
		return nil, err
	}
	return quicnet.New(quicnet.Config{Config: c, Conn: packets, TLS: secure})
}

// greetingOf returns the greeting of a node with the same configuration.
func greetingOf(c cluster.Config) message.Greet {
	return message.Greet{
		Name: c.Name, Cluster: c.Cluster, Size: c.Size,
		MinProtocol: message.Protocol, MaxProtocol: message.Protocol,
		Timings: message.Timings{
			HeartbeatInterval: c.HeartbeatInterval, HeartbeatTimeout: c.HeartbeatTimeout,
			LeaderTimeout: c.LeaderTimeout, LeaseTimeout: c.LeaseTimeout,
			TTLTimeout: c.TTLTimeout, RetryInterval: c.RetryInterval,
		},
	}
}

// lie returns a message by which an intruder may try to get a place, to depose a leader or to use
// the numbers up.
func (d *disguised) lie(to member.Address, n uint64) message.Message {
	d.known.mu.Lock()
	id, claim := d.known.id, d.known.claim
	d.known.mu.Unlock()
	held := member.Number{Version: claim.Version}
	later := member.Claim{Chosen: true, Version: claim.Version + n*raise, Leader: d.self.Address}
	proposal := paxos.ID{Version: later.Version, Ballot: paxos.Ballot{
		Round: n * raise, Proposer: d.self.Address, Incarnation: d.self.Incarnation,
		StoreID: d.self.StoreID,
	}}
	join := message.JoinClusterRequest{Name: d.greet.Name, Held: held}
	bound, newer := join, join
	bound.Bound, newer.Held.Version = later.Version, later.Version
	return message.Message{
		From: d.self, To: to, Cluster: id, Claim: pickOne(claim, later, member.Claim{}),
		Body: pickOne[message.Body](join, bound, newer,
			message.SeedKeepAlive{}, message.LeaderRelieve{Winner: later},
			message.ReJoinCluster{GivenUp: claim, Winner: later}, message.MemberLeave{GivenUp: claim},
			message.LeaderKeepAlive{Number: held, Bound: later.Version},
			message.Proposal{Stage: message.Pre, ID: proposal, Held: held},
			message.Proposal{Stage: message.Formal, ID: proposal, Base: held},
			message.LeaderQuery{ID: n}),
	}
}

func pickOne[T any](from ...T) T { return from[rand.IntN(len(from))] }
