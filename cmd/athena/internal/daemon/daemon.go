// SPDX-License-Identifier: Apache-2.0

// Package daemon runs a node as a process, with its log, signal handling, admin API, systemd
// notification and flight recorder.
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
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/cmd/athena/internal/supervised"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/internal/zslog"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport/tlsnet"
)

// To hand over leadership or to leave takes at most LeaderTimeout + leaveMargin. Including the wait
// for the work of the callers of the admin API, a node stops within maxLeave, since supervisors
// kill a process after 30 s or more.
const (
	leaveMargin = 2 * time.Second
	maxLeave    = 20 * time.Second
)

// neededFiles is the number of open files that a node needs: one for each connection of the admin
// API, and four times the 15 files that the node itself uses.
const neededFiles = adminapi.MaxConnections + 64

// millis is the layout of times in milliseconds: a failover takes less than a second.
const millis = ".000"

// newLogger returns a logger that writes to w. format is json or console; level is the lowest
// level.
func newLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	if format == "console" {
		file, ok := w.(*os.File)
		w = zerolog.ConsoleWriter{
			Out: w, TimeFormat: time.DateTime + millis, NoColor: !ok || !isTerminal(file),
		}
	}
	log := zerolog.New(w).Hook(zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
		e.Str(zerolog.TimestampFieldName, time.Now().Format("2006-01-02T15:04:05"+millis+"Z07:00"))
	}))
	return slog.New(zslog.NewHandler(log).AtLevel(level))
}

// setLevel sets a level to debug, info, warn or error.
func setLevel(v *slog.LevelVar, level string) {
	if err := v.UnmarshalText([]byte(level)); err != nil {
		panic(err) // impossible: settings checks the level
	}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Options configures Run.
type Options struct {
	Settings *settings.Settings
	Config   cluster.Config     // the configuration read by Settings
	Flags    *pflag.FlagSet     // the flags read by Settings
	Log      io.Writer          // destination of the log
	Parent   *supervised.Parent // nil if no demo started this process
}

// daemon is the process of one node.
type daemon struct {
	Options
	log       *slog.Logger
	level     *slog.LevelVar // the lowest level of log
	audit     *slog.Logger   // logs actions, whatever the level is
	admin     string         // address of the admin API, or settings.AdminOff
	others    *admin.Others
	groups    *election.Groups   // opened by callers of the admin API
	listening chan *cluster.Node // receives the node once it listens
	hangups   chan os.Signal     // SIGHUP: reload
	inUse     []settings.Effective
	overrides []settings.Override // keys of the file without an effect
	labels    chan struct{}       // full while a reload or a caller changes the labels of the node
}

// quietBuffers is the variable that disables a warning that quic-go prints to standard error.
// The node logs the same warning with a remedy.
const quietBuffers = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"

func newDaemon(o Options) *daemon {
	level := new(slog.LevelVar)
	setLevel(level, o.Settings.LogLevel)
	return &daemon{
		Options:   o,
		log:       newLogger(o.Log, o.Settings.LogFormat, level),
		level:     level,
		audit:     newLogger(o.Log, o.Settings.LogFormat, slog.LevelInfo),
		admin:     o.Settings.Admin,
		listening: make(chan *cluster.Node, 1),
		hangups:   make(chan os.Signal, 1),
		inUse:     o.Settings.Effective(o.Flags, o.Config),
		overrides: settings.Overrides(o.Flags),
		labels:    make(chan struct{}, 1),
	}
}

// Run runs a node until a signal or the admin API stops it, or it fails.
func Run(o Options) error {
	d := newDaemon(o)
	signal.Notify(d.hangups, syscall.SIGHUP)
	defer signal.Stop(d.hangups)
	for _, found := range settings.Misspelled(os.Environ()) {
		d.log.Warn("ignored an unknown environment variable",
			slog.String("variable", found[0]), slog.String("nearest", found[1]))
	}
	return d.run()
}

func (d *daemon) run() error {
	if err := os.Setenv(quietBuffers, "true"); err != nil {
		return err
	}
	d.Config.Receiver = receiver.NewMux()
	d.others = admin.Answer(d.Config.Receiver, cli.Build(), d.audit)
	d.groups = election.NewGroups(d.Config.Receiver)
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
			d.log.Info("stopping: the admin API requested it")
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
	ctx, err := steplog.NewContext(ctx, os.Getenv(steplog.Variable))
	if err != nil {
		return err
	}
	node, err := cluster.Start(ctx, d.Config, d.options(ctx)...)
	_, isMismatch := errors.AsType[*cluster.StoreMismatchError](err)
	switch {
	case isMismatch:
		return cli.Usage(settings.InFlags(err, d.Flags))
	case errors.Is(context.Cause(ctx), cli.ErrStopped) && err != nil:
		d.log.Info("stopped before joining")
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

// transportOf returns the option of the configured transport.
func transportOf(s *settings.Settings) []cluster.Option {
	if s.Transport == settings.TransportTLS {
		return []cluster.Option{cluster.WithTransport(tlsnet.Open)}
	}
	return nil
}

// options returns the options of the node, which reloads its configuration until ctx is done.
func (d *daemon) options(ctx context.Context) []cluster.Option {
	opts := []cluster.Option{
		cluster.WithLogger(d.log),
		cluster.WithListening(func(n *cluster.Node) {
			d.others.Use(n)
			d.listening <- n
			go d.serveReloads(ctx, n)
		}),
	}
	opts = append(opts, transportOf(d.Settings)...)
	if d.Parent != nil {
		opts = append(opts, d.Parent.Network(d.Config, d.admin))
	}
	return opts
}

// runMember waits until the node ends or ctx is done. If ctx is done, the node leaves the cluster.
func (d *daemon) runMember(ctx context.Context, node *cluster.Node) error {
	supervisor := service{d.log}
	supervisor.joined(ctx, node)
	select {
	case <-node.Done():
		return fmt.Errorf("the node failed: %w", node.Err())
	case <-ctx.Done():
		supervisor.leaving()
		return d.leave(node)
	}
}

// logStart logs the identity of the node, and a warning if the limit on open files is low.
func (d *daemon) logStart() {
	c := d.Config.WithDefaults()
	d.log.Info("starting", slog.String("address", c.Advertise), slog.String("cluster", c.Cluster),
		slog.Int("size", c.Size), slog.String("admin", d.admin),
		slog.String("data", cmp.Or(d.Config.DataDir, "memory")))
	if limit, known := openFilesLimit(); known && limit < neededFiles {
		d.log.Warn("the limit on open files is low, so the admin API may refuse connections: "+
			"raise it with ulimit -n, or with LimitNOFILE= in systemd",
			slog.Uint64("limit", limit), slog.Uint64("want", neededFiles))
	}
}

// serveAdmin serves the admin API. It begins when the node listens, and ends when the function stop
// is called. A request to /v1/leave calls the function leave.
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
				admin.WithGroups(d.groups.List,
					func(name string, o election.Options) (*leader.Candidate, error) {
						return d.groups.Open(node, name, o)
					}),
			}
			if d.Settings.AdminWrite {
				opts = append(opts, admin.WithWrite(node, leave))
			}
			access := append(d.Settings.Access(), admin.WithLog(d.audit))
			api := d.guardLabels(admin.New(node, cli.Build(), opts...))
			err := admin.Serve(ctx, l, api, access...)
			if err != nil {
				d.log.Error("the admin API failed; the node keeps running", slog.Any("error", err))
			}
		case <-ctx.Done():
			_ = l.Close() // nothing was served
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// closeGroups closes the groups of callers before the node leaves, when their work has ended. This
// announces the end of a leadership by Lowest, so that the others need not wait for Timing.Alive.
func (d *daemon) closeGroups(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var closing sync.WaitGroup
	for _, g := range d.groups.List() {
		// If it fails, the group closes when the node has left.
		closing.Go(func() { _ = g.Candidate.Close(ctx) })
	}
	closing.Wait()
}

// leaveTimeout bounds the time to hand over leadership.
func (d *daemon) leaveTimeout() time.Duration {
	return min(d.Config.LeaderTimeout+leaveMargin, maxLeave)
}

// leave makes the node leave. The callers of the admin API have the greater part of maxLeave to end
// the work for which the node holds locks or leads jobs and groups.
func (d *daemon) leave(node *cluster.Node) error {
	work := maxLeave - min(d.leaveTimeout(), maxLeave/2)
	ctx, cancel := context.WithTimeout(context.Background(), work)
	defer cancel()
	defer time.AfterFunc(maxLeave, func() { _ = node.Close() }).Stop()
	d.log.Info("leaving the cluster", slog.Int64("timeout_ms", maxLeave.Milliseconds()))
	d.closeGroups(ctx, work/2)
	err := node.Leave(ctx)
	if err != nil && errors.Is(node.Err(), cluster.ErrLeft) && ctx.Err() != nil {
		d.log.Warn("left before the work of all callers had ended", slog.Any("error", err))
		return nil
	}
	return err
}
