// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"log/slog"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/transport"
)

// Option sets what cannot be written in a file.
type Option func(*options)

type options struct {
	logger    zerolog.Logger
	store     Store
	transport transport.Transport
	clock     func() time.Time
}

// Store keeps what a node must remember over restarts. The node owns it from
// Start on and closes it, also when Start returns an error.
type Store interface {
	// Load returns what was saved last; false when nothing ever was.
	Load() (paxos.Durable, bool, error)
	// Save returns once d is durable.
	Save(d paxos.Durable) error
	Close() error
}

// WithLogger sets where the node logs. Default: warnings to standard error.
func WithLogger(l zerolog.Logger) Option { return func(o *options) { o.logger = l } }

// WithSlog sends the log lines of the node to l.
func WithSlog(l *slog.Logger) Option { return func(o *options) {} }

// WithStore replaces the store that Config.DataDir names. It counts as durable.
func WithStore(s Store) Option { return func(o *options) { o.store = s } }

// WithTransport replaces QUIC. The node owns t from Start on and closes it,
// also when Start returns an error.
func WithTransport(t transport.Transport) Option { return func(o *options) { o.transport = t } }

// WithClock replaces the clock, which must never go backwards and must go on
// while the machine is suspended. Tests in a synctest bubble pass time.Now.
func WithClock(now func() time.Time) Option { return func(o *options) { o.clock = now } }
