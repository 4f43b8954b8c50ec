// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"net/url"
	"strings"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// startEtcd starts an embedded etcd server. Its connections are plain HTTP.
func startEtcd(s nodeSetup) (*node, error) {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.ZapLoggerBuilder = s.name(s.Index), s.Dir, quietZap
	urls := func(which int) []url.URL {
		return []url.URL{{Scheme: "http", Host: s.address(s.Index, which)}}
	}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls(0), urls(0)
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls(1), urls(1)
	var members []string
	for i := range s.N {
		members = append(members, s.name(i)+"=http://"+s.address(i, 0))
	}
	cfg.InitialCluster = strings.Join(members, ",")
	if s.Timing == halfTime {
		cfg.TickMs, cfg.ElectionMs = 100, 500
	}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	names := map[types.ID]string{}
	for _, m := range e.Server.Cluster().Members() {
		names[m.ID] = m.Name
	}
	changes := newNotification()
	go func() {
		<-e.Server.ReadyNotify()
		for {
			changed := e.Server.LeaderChangedNotify() // before the view is read
			changes.notify()
			<-changed
		}
	}()
	locks := &etcdLocks{address: s.address(s.Index, 1), name: s.name(s.Index)}
	return &node{
		view:    func() nodeView { return viewEtcd(e, names) },
		changed: changes.changed, fill: locks.fill, lock: locks.lock,
	}, nil
}

func quietZap(cfg *embed.Config) error {
	return embed.NewZapLoggerBuilder(zap.NewNop())(cfg)
}

// viewEtcd returns no members until the server is ready to serve.
func viewEtcd(e *embed.Etcd, names map[types.ID]string) (v nodeView) {
	if leader := e.Server.Leader(); leader != 0 {
		v.Leader = names[leader]
	}
	select {
	case <-e.Server.ReadyNotify():
		v.Members = len(e.Server.Cluster().Members())
	default:
	}
	return v
}

// etcdLocks are mutexes of package concurrency, through a client of the server in this process.
type etcdLocks struct {
	address, name string

	once    sync.Once
	client  *clientv3.Client
	session *concurrency.Session
	err     error // of connecting
	mutexes sync.Map
}

func (l *etcdLocks) connect() error {
	l.once.Do(func() {
		l.client, l.err = clientv3.New(clientv3.Config{
			Endpoints: []string{l.address}, Logger: zap.NewNop(),
		})
		if l.err == nil {
			l.session, l.err = concurrency.NewSession(l.client)
		}
	})
	return l.err
}

func (l *etcdLocks) fill(from, to int) error {
	if err := l.connect(); err != nil {
		return err
	}
	for ; from < to; from++ {
		_, err := l.client.Put(context.Background(), tableKey(from), string(tableValue()))
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *etcdLocks) lock(worker int) error {
	if err := l.connect(); err != nil {
		return err
	}
	key := "lock/" + l.name + "/" + tableKey(worker)
	m, ok := l.mutexes.Load(worker)
	if !ok {
		m, _ = l.mutexes.LoadOrStore(worker, concurrency.NewMutex(l.session, key))
	}
	mutex := m.(*concurrency.Mutex)
	if err := mutex.Lock(context.Background()); err != nil {
		return err
	}
	return mutex.Unlock(context.Background())
}
