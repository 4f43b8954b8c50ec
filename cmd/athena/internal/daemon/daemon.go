// SPDX-License-Identifier: Apache-2.0

// Package daemon runs a node as a process: its log, signals, admin API, systemd notification
// and flight recorder.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/cmd/athena/internal/supervised"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/zslog"
	"github.com/athena-go/athena/receiver"
)

// A node may take a little longer to leave than it promises, but not so long that a
// supervisor kills it.
const (
	leaveSpare = 2 * time.Second
	maxLeave   = 20 * time.Second
)

// neededFiles is how many files a node has to be able to open: one for each caller of the
// admin API, and several times the 15 that it uses itself.
const neededFiles = adminapi.MaxConnections + 64

// newLogger returns a logger that writes to w. Format is json or console, level debug, info,
// warn or error.
func newLogger(w io.Writer, format, level string) *slog.Logger {
	if format == "console" {
		file, ok := w.(*os.File)
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.DateTime, NoColor: !ok || !isTerminal(file)}
	}
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		panic(err) // settings accepts only known levels
	}
	return slog.New(zslog.NewHandler(zerolog.New(w).With().Timestamp().Logger().Level(l)))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Options say how to run a node.
type Options struct {
	Settings *settings.Settings
	Config   cluster.Config     // that Settings gave
	Flags    *pflag.FlagSet     // that Settings was read from
	Log      io.Writer          // gets the log
	Parent   *supervised.Parent // nil unless a demo started this process
}

// daemon is the process of one node.
type daemon struct {
	Options
	log       *slog.Logger
	admin     string // where the admin API listens, or settings.AdminOff
	others    *admin.Others
	listening chan *cluster.Node // gets the node before it has joined
}

// quietBuffers is the switch that quic-go has for a warning of its own, which
// comes on standard error, not as a line of the log. The node tells the same with
// advice.
const quietBuffers = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"

// Run runs a node until a signal, the admin API or a failure ends it.
func Run(o Options) error {
	d := &daemon{
		Options:   o,
		log:       newLogger(o.Log, o.Settings.LogFormat, o.Settings.LogLevel),
		admin:     o.Settings.Admin,
		listening: make(chan *cluster.Node, 1),
	}
	for _, found := range settings.Misspelled(os.Environ()) {
		d.log.Warn("ignored: the variable stands for no flag",
			slog.String("variable", found[0]), slog.String("nearest", found[1]))
	}
	return d.run()
}

// Run is the whole life of the process.
func (d *daemon) run() error {
	if err := os.Setenv(quietBuffers, "true"); err != nil {
		return err
	}
	d.Config.Receiver = receiver.NewMux()
	d.others = admin.Answer(d.Config.Receiver, cli.Build())
	ctx, stop := untilSignal(d.log)
	defer stop()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	if d.admin != settings.AdminOff {
		l, err := admin.Listen(d.admin, d.Settings.Access()...)
		if err != nil {
			return fmt.Errorf("%s: %w", settings.Given(d.Flags, "admin"), err)
		}
		d.admin = admin.AddrOf(l)
		defer d.serveAdmin(l, func() {
			d.log.Info("told to leave by the admin API")
			leave(cli.ErrStopped)
		})()
	}
	var recorded *flight
	if d.Settings.FlightRecorder != "" {
		var err error
		if recorded, err = newFlight(d.Settings.FlightRecorder, d.log); err != nil {
			return fmt.Errorf("%s: %w", settings.Given(d.Flags, "flight-recorder"), err)
		}
	}
	d.logStart()
	opts := []cluster.Option{
		cluster.WithLogger(d.log),
		cluster.WithListening(func(n *cluster.Node) { d.others.Use(n); d.listening <- n }),
	}
	if d.Parent != nil {
		opts = append(opts, d.Parent.Network(d.Config, d.admin))
	}
	node, err := cluster.Start(ctx, d.Config, opts...)
	_, isMismatch := errors.AsType[*cluster.StoreMismatchError](err)
	switch {
	case isMismatch:
		return cli.Usage(settings.InFlags(err, d.Flags))
	case errors.Is(context.Cause(ctx), cli.ErrStopped) && err != nil:
		d.log.Info("stopped before it had joined")
		return nil
	case err != nil:
		return settings.Allowed(settings.InFlags(err, d.Flags), "data-dir")
	}
	if d.Parent != nil {
		go d.Parent.Report(node)
	}
	if recorded != nil {
		go recorded.watch(ctx, node)
	}
	return d.runMember(ctx, node)
}

// runMember waits until the node ends or ctx is done, and then leaves the cluster.
func (d *daemon) runMember(ctx context.Context, node *cluster.Node) error {
	supervisor := service{d.log}
	supervisor.joined(ctx, node)
	select {
	case <-node.Done():
		return fmt.Errorf("the node ended: %w", node.Err())
	case <-ctx.Done():
		supervisor.leaving()
		return d.leave(node)
	}
}

// logStart logs who this process is, and what may hinder it.
func (d *daemon) logStart() {
	c := d.Config.WithDefaults()
	d.log.Info("starting", slog.String("address", c.Advertise), slog.String("cluster", c.Cluster),
		slog.Int("size", c.Size), slog.String("admin", d.admin),
		slog.String("data", cmp.Or(d.Config.DataDir, "memory")))
	if limit, known := openFilesLimit(); known && limit < neededFiles {
		d.log.Warn("few open files are allowed, so that callers may find the admin API closed: "+
			"raise the limit with ulimit -n, or LimitNOFILE of systemd",
			slog.Uint64("limit", limit), slog.Uint64("want", neededFiles))
	}
}

// serveAdmin answers the admin API from when there is a node to ask, until what it
// returns is called. leave makes this process leave and end.
func (d *daemon) serveAdmin(l net.Listener, leave func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case node := <-d.listening:
			opts := []admin.Option{
				admin.WithOthers(d.others),
				admin.WithJobs(node.Records(), node.HoldRemaining),
			}
			if d.Settings.AdminWrite {
				opts = append(opts, admin.WithWrite(node, leave))
			}
			err := admin.Serve(ctx, l, admin.New(node, cli.Build(), opts...), d.Settings.Access()...)
			if err != nil {
				d.log.Error("the admin API ended; the node goes on", slog.Any("error", err))
			}
		case <-ctx.Done():
			_ = l.Close() // nobody was answered
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (d *daemon) leave(node *cluster.Node) error {
	bound := min(d.Config.LeaderTimeout+leaveSpare, maxLeave)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	d.log.Info("leaving the cluster", slog.Int64("timeout_ms", bound.Milliseconds()))
	return node.Leave(ctx)
}
