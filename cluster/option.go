// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/zslog"
	"github.com/athena-go/athena/transport"
)

// Option sets something that a configuration file cannot hold.
type Option func(*options)

type options struct {
	logger    *slog.Logger
	transport func(transport.Config) (transport.Network, error)
	socket    func(addr string) (net.PacketConn, error)
	clock     func() time.Time
	wall      func() time.Time // nil: the system clock; if clock is set, no wall clock
	lookUpSRV lookUpSRV
	listening func(*Node)
	workers   int
}

func newOptions(opts []Option) options {
	warnings := zerolog.New(os.Stderr).With().Timestamp().Logger().Level(zerolog.WarnLevel)
	o := options{
		logger:    slog.New(zslog.NewHandler(warnings)),
		socket:    listenUDP,
		lookUpSRV: net.DefaultResolver.LookupSRV,
		listening: func(*Node) {},
	}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithLogger sets the logger of the node. The default writes warnings and errors to standard
// error as lines of JSON. Refusals of the protocol are logged at debug level.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithTransport replaces QUIC with the network that the function listen opens: tlsnet.Open for TLS
// on TCP, a network of package memnet, one of package quicnet with a different configuration, or
// your own. All nodes of a cluster must use the same kind. listen is responsible for encryption,
// with the keys and certificates in transport.Config, and must fail with transport.ErrAddressInUse
// if another process listens on the address.
func WithTransport(listen func(transport.Config) (transport.Network, error)) Option {
	return func(o *options) { o.transport = listen }
}

// WithWorkers lets up to count observers own records through this node (observer.Observer.Work);
// the default is 0. A worker may set, take and drop any record and lock, as a member may, while
// other observers may only read them. It sends its messages through any node that has this option,
// so give it to all.
func WithWorkers(count int) Option { return func(o *options) { o.workers = count } }

// WithSocket replaces the UDP socket of QUIC, for example to simulate or disturb a network. The
// function open is called with Config.Addr; the node closes the socket.
func WithSocket(open func(addr string) (net.PacketConn, error)) Option {
	return func(o *options) { o.socket = open }
}

// WithClock replaces the clock. The clock must never go backwards, and should include the time for
// which the machine is suspended. The node then does not detect steps of the wall clock. Tests in a
// synctest bubble pass time.Now.
func WithClock(now func() time.Time) Option { return func(o *options) { o.clock = now } }

// WithListening calls f with the node once it listens, while Start still waits for it to join. f
// can, for example, start to watch the Status of the node. f must not block. If Start fails later,
// it closes the node. If the option is given several times, each f is called in order. Handlers do
// not need this option: see FromContext.
func WithListening(f func(*Node)) Option {
	return func(o *options) {
		before := o.listening
		o.listening = func(n *Node) {
			before(n)
			f(n)
		}
	}
}
