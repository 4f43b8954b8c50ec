// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/transport/tlsnet"
)

// athenaVariant is a configuration of Athena that differs from the default in one setting.
type athenaVariant struct {
	lease time.Duration // LeaseTimeout; 0 for the default
	trust bool          // TrustRefusal
	tls   bool          // TLS on TCP instead of QUIC
}

// options returns the options of a node. Like all other peers, it does not log.
func (v athenaVariant) options() []cluster.Option {
	options := []cluster.Option{cluster.WithLogger(slog.New(slog.DiscardHandler))}
	if v.tls {
		options = append(options, cluster.WithTransport(tlsnet.Open))
	}
	return options
}

// athenaSecret returns the secret of all nodes; it makes all connections mutually authenticated.
func athenaSecret() []byte {
	secret := sha256.Sum256([]byte("peers"))
	return secret[:]
}

func (v athenaVariant) config(s nodeSetup) cluster.Config {
	cfg := cluster.DefaultConfig()
	cfg.Size, cfg.Secret, cfg.DataDir = s.N, athenaSecret(), s.Dir
	cfg.Addr, cfg.Name = s.address(s.Index, 0), s.name(s.Index)
	for i := range s.N {
		cfg.Seeds = append(cfg.Seeds, s.address(i, 0))
	}
	switch s.Timing {
	case halfTime:
		cfg.LeaderTimeout = 500 * time.Millisecond
	case noticing:
		cfg.HeartbeatTimeout = 500 * time.Millisecond
	}
	cfg.TrustRefusal = v.trust
	if v.lease > 0 {
		cfg.LeaseTimeout = v.lease
	}
	return cfg
}

// guardAthena gives the process of a node a guard.
func guardAthena(s nodeSetup) error {
	v := athenaVariant{}
	return cluster.Guard(v.config(s), v.options()...)
}

// startAthena starts a node with a store in a folder and all nodes as seeds.
func startAthena(v athenaVariant) func(nodeSetup) (*node, error) {
	return func(s nodeSetup) (*node, error) {
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			return nil, err
		}
		n, err := cluster.Start(context.Background(), v.config(s), v.options()...)
		if err != nil {
			return nil, err
		}
		changes := newNotification()
		go func() {
			for range n.Events(context.Background()) {
				changes.notify()
			}
		}()
		locks := athenaLocks{n, n.Records().Session(nil)}
		return &node{
			view: func() nodeView { return viewAthena(n) }, changed: changes.changed,
			fill: locks.fill, lock: locks.lock,
		}, nil
	}
}

// viewAthena counts active members. Only a leader with authority counts.
func viewAthena(n *cluster.Node) (v nodeView) {
	term, led := n.Leader()
	for _, m := range n.View().Members {
		if m.Status == member.Active {
			v.Members++
		}
		if led && m.Address.String() == term.Leader() {
			v.Leader = m.Name
		}
	}
	return v
}

// athenaLocks implements locks by records that end with their owner.
type athenaLocks struct {
	node    *cluster.Node
	session record.Session
}

// maxFill is the number of records that one commit adds. Athena allows no more.
const maxFill = 64

func (l athenaLocks) fill(from, to int) error {
	for from < to {
		var ops []record.Op
		for ; from < to && len(ops) < maxFill; from++ {
			ops = append(ops, record.Op{Kind: record.Set, Key: tableKey(from), Value: tableValue()})
		}
		if _, err := l.session.Commit(context.Background(), ops...); err != nil {
			return err
		}
	}
	return nil
}

func (l athenaLocks) lock(worker int) error {
	ctx := context.Background()
	key := fmt.Sprintf("lock/%s/%d", l.node.Self().Name, worker)
	token, err := l.session.Commit(ctx, record.Op{Kind: record.Absent, Key: key},
		record.Op{Kind: record.SetOwned, Key: key})
	if err != nil {
		return err
	}
	_, err = l.session.Commit(ctx, record.Op{Kind: record.Held, Key: key, Token: token},
		record.Op{Kind: record.Drop, Key: key})
	return err
}

// tableKey and tableValue are the records that fill a table.
func tableKey(i int) string { return fmt.Sprintf("table/%d", i) }

func tableValue() []byte { return []byte("0123456789abcdef") }
