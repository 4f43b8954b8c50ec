// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// emptyMachine is a state machine without state.
type emptyMachine struct{}

func (emptyMachine) Apply(*raft.Log) any                 { return nil }
func (emptyMachine) Snapshot() (raft.FSMSnapshot, error) { return nil, io.EOF }
func (emptyMachine) Restore(r io.ReadCloser) error       { return r.Close() }

// startRaft starts a node of hashicorp/raft with a store in memory and plain TCP.
func startRaft(s nodeSetup) (*node, error) {
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.Logger = raft.ServerID(s.name(s.Index)), hclog.NewNullLogger()
	if s.Timing == halfTime { // heartbeats are sent every 50 to 100 ms
		const timeout = 500 * time.Millisecond
		cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaderLeaseTimeout = timeout, timeout, timeout
	}
	const connections, ioTimeout = 3, 10 * time.Second
	transport, err := raft.NewTCPTransportWithLogger(s.address(s.Index, 0), nil, connections,
		ioTimeout, cfg.Logger)
	if err != nil {
		return nil, err
	}
	store, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	var servers []raft.Server
	for i := range s.N {
		servers = append(servers, raft.Server{
			ID: raft.ServerID(s.name(i)), Address: raft.ServerAddress(s.address(i, 0)),
		})
	}
	err = raft.BootstrapCluster(cfg, store, store, snapshots, transport,
		raft.Configuration{Servers: servers})
	if err != nil {
		return nil, err
	}
	r, err := raft.NewRaft(cfg, emptyMachine{}, store, store, snapshots, transport)
	if err != nil {
		return nil, err
	}
	changes := newNotification()
	r.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		if _, ok := o.Data.(raft.LeaderObservation); ok {
			changes.notify()
		}
		return false
	}))
	return &node{
		view: func() nodeView {
			_, leader := r.LeaderWithID()
			return nodeView{string(leader), len(r.GetConfiguration().Configuration().Servers)}
		},
		changed: changes.changed,
	}, nil
}
