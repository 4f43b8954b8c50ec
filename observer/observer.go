// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// Config configures an Observer.
type Config struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Members are addresses of members, host:port. One that answers is enough: the others are then
	// learned from it.
	Members []string
	// Secret is the secret of the cluster. If it is empty, TLS is used; if both are, nothing is
	// encrypted.
	Secret []byte
	// TLS, if not nil, has a certificate of the authority of the cluster.
	TLS *tls.Config
	// Transport opens the network; nil means QUIC.
	Transport func(transport.Config) (transport.Network, error)
	// Receiver has the codec and the names of the types that are sent; may be nil.
	Receiver *receiver.Mux

	clock func() time.Time // of a worker; nil except in tests
}

// View is what an observer knows of the cluster. It may be out of date.
type View struct {
	ClusterID member.ClusterID
	Leader    member.Address // zero if no leader is known
	// Authority reports whether the followed member knows that the leader has authority. It ends at
	// most 10 s after the last member answered.
	Authority bool
	Version   uint64
	Members   member.Roster
}

// Observer follows a cluster and sends requests to its members, without being a member.
type Observer struct {
	cfg      Config
	self     member.Identity
	key      storekey.Key
	seeds    []member.Address
	net      *mesh.Mesh
	messages *messaging.Messenger
	mux      *receiver.Mux

	life context.Context
	stop context.CancelCauseFunc
	work sync.WaitGroup

	working atomic.Bool // Work was called

	closing  sync.Once
	closeErr error

	mu      sync.Mutex
	home    member.Address // the member that is followed
	view    View
	known   bool
	failed  error         // the last reason why a member was not followed
	doubt   *time.Timer   // ends the authority of view; nil while a member confirms the view
	led     chan struct{} // closed when the leader of view has ended
	changed chan struct{} // closed when view changes
}

const (
	// assumedSize bounds the peers of an observer, which does not know the size of the cluster yet.
	assumedSize = 32
	// closeTimeout bounds Close.
	closeTimeout = 5 * time.Second
)

// Start connects to the cluster and returns after the first view has arrived.
func Start(ctx context.Context, cfg Config) (*Observer, error) {
	o := &Observer{
		cfg: cfg, mux: cfg.Receiver, led: make(chan struct{}), changed: make(chan struct{}),
	}
	for _, text := range cfg.Members {
		a, err := member.ParseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("observer: %w", err)
		}
		o.seeds = append(o.seeds, a)
	}
	if len(o.seeds) == 0 {
		return nil, errors.New("observer: Members is required: list at least one host:port")
	}
	o.key = storekey.New()
	id := o.key.StoreID()
	o.self = member.Identity{
		Address: member.ObserverAddress(id.String()), StoreID: id, Incarnation: 1,
	}
	o.life, o.stop = context.WithCancelCause(context.Background())
	if err := o.openMesh(); err != nil {
		return nil, err
	}
	o.work.Go(o.followCluster)
	for {
		_, known, changed := o.readView()
		if known {
			return o, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("observer: no member of %v answered: %w",
				cfg.Members, context.Cause(ctx)), o.lastFailure(), o.Close())
		}
	}
}

func (o *Observer) openMesh() error {
	if o.mux == nil {
		o.mux = receiver.NewMux()
	}
	if err := o.mux.Start(receiver.Setup{Scan: wire.Scan}); err != nil {
		return err
	}
	net, err := mesh.New(mesh.Config{
		Encode: wire.Encode, Decode: wire.Decode, Size: assumedSize,
		Key:         func(member.StoreID) storekey.Key { return o.key },
		CustomBytes: messaging.MaxEventBytes,
	}, o.openTransport)
	if err != nil {
		return errors.Join(err, o.mux.Close(context.Background()))
	}
	o.net = net
	o.messages = messaging.New(messaging.Config{
		Node: node{o}, Observer: true, Self: o.self.Address, Mux: o.mux, Net: net,
		HeartbeatInterval: retryPause,
		Quit:              o.life.Done(), Cause: func() error { return context.Cause(o.life) },
		Dropped: func(messaging.Drop) {},
	})
	if err := net.Start(handler{o.messages, o}); err != nil {
		return errors.Join(err, o.Close())
	}
	return nil
}

func (o *Observer) lastFailure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

func (o *Observer) makeTLS() (made *tls.Config, named bool, err error) {
	switch {
	case o.cfg.TLS != nil:
		return o.cfg.TLS, true, nil
	case len(o.cfg.Secret) > 0:
		made, err = quicnet.SecretTLS([][]byte{o.cfg.Secret}, o.cfg.Cluster, time.Now)
		return made, false, err
	default:
		made, err = quicnet.InsecureTLS(time.Now)
		return made, false, err
	}
}

func (o *Observer) openTransport(c transport.Config) (transport.Network, error) {
	c.Addr, c.TLS = ":0", o.makeTLS
	if o.cfg.Transport != nil {
		return o.cfg.Transport(c)
	}
	made, named, err := o.makeTLS()
	if err != nil {
		return nil, err
	}
	packets, err := quicnet.Listen(c.Addr)
	if err != nil {
		return nil, err
	}
	return quicnet.New(quicnet.Config{Config: c, Conn: packets, TLS: made, Named: named})
}

// Close ends the requests and streams of the observer and its connections. Later calls wait for the
// first one.
func (o *Observer) Close() error {
	o.closing.Do(func() {
		o.stop(messaging.ErrClosed)
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		o.closeErr = o.messages.Close(ctx)
		o.work.Wait()
		o.confirmView() // stops the timer
	})
	return o.closeErr
}

func (o *Observer) readView() (v View, known bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.view, o.known, o.changed
}

// View returns the newest view.
func (o *Observer) View() View {
	v, _, _ := o.readView()
	return v
}

// Views yields the current view and each newer one, until ctx is done or the observer is closed. A
// slow reader misses views, but never the newest.
func (o *Observer) Views(ctx context.Context) iter.Seq[View] {
	return func(yield func(View) bool) {
		for {
			v, _, changed := o.readView()
			if ctx.Err() != nil || o.life.Err() != nil || !yield(v) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			case <-o.life.Done():
			}
		}
	}
}

// Request sends a request to a member, like cluster.Request.
func Request[Resp any](
	ctx context.Context, o *Observer, to member.Address, req any,
) (resp Resp, err error) {
	err = o.messages.Request(ctx, to, req, &resp, messaging.Options{})
	return resp, err
}

// RequestLeader sends a request to the leader, like cluster.RequestLeader.
func RequestLeader[Resp any](ctx context.Context, o *Observer, req any) (resp Resp, err error) {
	err = o.messages.RequestLeader(ctx, req, &resp, messaging.Options{})
	return resp, err
}

// JobLeader returns the leader of a job of package election as the followed member sees it, or the
// zero Holder if no member leads it. JobLeader blocks until a member has answered or ctx is done;
// then it returns the error of the last attempt. After Close the error is leader.ErrClosed.
func (o *Observer) JobLeader(ctx context.Context, job string) (leader.Holder, error) {
	key, err := holding.LeaderKey(job)
	if err != nil {
		return leader.Holder{}, fmt.Errorf("observer: %w", err)
	}
	return o.readHolder(ctx, key)
}

// LockHolder is like JobLeader, for the holder of a lock of package lock. The owner of shard 7 of a
// set of shards is the holder of the lock "SET/7".
func (o *Observer) LockHolder(ctx context.Context, name string) (leader.Holder, error) {
	key, err := lock.Key(name)
	if err != nil {
		return leader.Holder{}, fmt.Errorf("observer: %w", err)
	}
	return o.readHolder(ctx, key)
}

// readHolder asks the followed member for the owner of a record. If the member does not answer,
// readHolder asks again: the observer may follow another member then.
func (o *Observer) readHolder(ctx context.Context, key string) (leader.Holder, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, probeStep)
		r, ok, err := o.messages.ReadRecord(attempt, o.currentHome(), key)
		cancel()
		switch {
		case err == nil && (!ok || r.Revoked):
			return leader.Holder{}, nil
		case err == nil:
			return leader.Holder{ID: string(r.Value), Token: r.Token}, nil
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return leader.Holder{}, err
		case <-o.life.Done():
			return leader.Holder{}, messaging.ErrClosed
		}
	}
}

// OpenStream opens a stream to a member, like cluster.Node.OpenStream.
func (o *Observer) OpenStream(
	ctx context.Context, to member.Address, name string,
) (receiver.Stream, error) {
	return o.messages.OpenStream(ctx, to, name, messaging.Options{})
}
