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

// Option sets what a configuration file cannot hold.
type Option func(*options)

type options struct {
	logger    *slog.Logger
	transport func(transport.Config) (transport.Network, error)
	socket    func(addr string) (net.PacketConn, error)
	clock     func() time.Time
	wall      func() time.Time // if nil, the system's; with a clock, steps are not looked for
	listening func(*Node)
}

func newOptions(opts []Option) options {
	warnings := zerolog.New(os.Stderr).With().Timestamp().Logger().Level(zerolog.WarnLevel)
	o := options{
		logger:    slog.New(zslog.NewHandler(warnings)),
		socket:    listenUDP,
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

// WithTransport replaces QUIC with the network that listen opens: tlsnet.Open for TLS on TCP, one
// of package memnet, one of package quicnet with another configuration, or your own. All nodes
// of a cluster must use the same. listen is responsible for encryption, for which
// transport.Config has what Config gives, and must fail with transport.ErrAddressInUse if
// another process listens on the address.
func WithTransport(listen func(transport.Config) (transport.Network, error)) Option {
	return func(o *options) { o.transport = listen }
}

// WithSocket replaces the UDP socket of QUIC, for networks that are simulated or disturbed on
// purpose. open gets Config.Addr; the node closes the socket.
func WithSocket(open func(addr string) (net.PacketConn, error)) Option {
	return func(o *options) { o.socket = open }
}

// WithClock replaces the clock. It must never go backwards, and should include the time for
// which the machine is suspended. The node then does not look for steps of the wall clock.
// Tests in a synctest bubble pass time.Now.
func WithClock(now func() time.Time) Option { return func(o *options) { o.clock = now } }

// WithListening calls f with the node when it listens, while Start still waits for it to join,
// for example to watch its Status. f must not block. If Start fails later, it has closed the
// node. If the option is given several times, each f is called in order. Handlers do not need
// this option: see FromContext.
func WithListening(f func(*Node)) Option {
	return func(o *options) {
		before := o.listening
		o.listening = func(n *Node) {
			before(n)
			f(n)
		}
	}
}
