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

// Option sets what cannot be written in a file.
type Option func(*options)

type options struct {
	logger    *slog.Logger
	transport func(transport.Config) (transport.Network, error)
	socket    func(addr string) (net.PacketConn, error)
	clock     func() time.Time
	wall      func() time.Time // nil for that of the system, or with a clock for none
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

// WithLogger sets the logger of the node. The default writes warnings and errors to
// standard error, as lines of JSON. Refusals of the protocol are logged at debug level.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithTransport replaces QUIC by the network that listen opens: that of package memnet, one
// of package quicnet that is configured differently, or an implementation of your own.
// Secrets and certificates are then the business of listen. It fails with
// transport.ErrAddressInUse if another process listens on the address.
func WithTransport(listen func(transport.Config) (transport.Network, error)) Option {
	return func(o *options) { o.transport = listen }
}

// WithSocket replaces the UDP socket through which QUIC sends its packets, for networks that
// are simulated or disturbed on purpose. open gets Config.Addr; the node closes the socket.
func WithSocket(open func(addr string) (net.PacketConn, error)) Option {
	return func(o *options) { o.socket = open }
}

// WithClock replaces the clock, which must never go backwards and should go on
// while the machine is suspended. Steps of the wall clock are then not looked for.
// Tests in a synctest bubble pass time.Now.
func WithClock(now func() time.Time) Option { return func(o *options) { o.clock = now } }

// WithListening calls f with the node once it listens, while Start still waits for it to
// join, for example to watch its Status meanwhile. f must not block. If Start fails later,
// it has closed the node. If the option is given more than once, each f runs, in order.
// Handlers do not need it: see FromContext.
func WithListening(f func(*Node)) Option {
	return func(o *options) {
		before := o.listening
		o.listening = func(n *Node) {
			before(n)
			f(n)
		}
	}
}
