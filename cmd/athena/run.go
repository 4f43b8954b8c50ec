// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/zslog"
	"github.com/athena-go/athena/receiver"
)

const (
	// A node may take a little longer to leave than it promises, and not so
	// long that a supervisor loses its patience.
	leaveSpare = 2 * time.Second
	maxLeave   = 20 * time.Second
	// sameSignal is the time within which two signals count as one.
	sameSignal = 100 * time.Millisecond
)

// neededFiles is how many files a node has to be able to open: one for each caller of the
// admin API, and several times the 15 that it uses itself.
const neededFiles = admin.MaxConnections + 64

var errStopped = errors.New("told to stop")

func newRun() *cobra.Command {
	var s settings
	var supervised bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "run one node until it is told to stop",
		Long: "run makes this process a member of a cluster. SIGINT, SIGTERM or SIGHUP lets it leave\n" +
			"in order, handing over leadership first; a second one ends it at once. Under nohup\n" +
			"SIGHUP stays ignored.\n\n" +
			"Every flag can be given as a variable too, --data-dir as ATHENA_DATA_DIR, and as a line\n" +
			"of the file of --config. Flags win over variables, variables over the file; an empty\n" +
			"variable is as none. Where athena config check finds a fault, run says the same and starts\n" +
			"nothing.",
		Example: "  athena run --addr 10.0.0.1:7000 --size 3 --seeds 10.0.0.1:7000,10.0.0.2:7000 \\\n" +
			"      --secret-file secret --admin 127.0.0.1:7070\n" +
			"  athena run --config athena.yaml --addr 10.0.0.2:7000",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := s.settle(cmd.Flags(), os.Getenv)
			if err != nil {
				warnMisspelled(cmd.ErrOrStderr(), os.Environ())
				return err
			}
			d := &daemon{
				config:    config,
				flags:     cmd.Flags(),
				log:       newLogger(cmd.ErrOrStderr(), s.logFormat, s.logLevel),
				listening: make(chan *cluster.Node, 1),
				admin:     s.admin,
				access:    s.access(),
				write:     s.adminWrite,
				flights:   s.flightRecorder,
			}
			for _, found := range misspelled(os.Environ()) {
				d.log.Warn("ignored: the variable stands for no flag",
					slog.String("variable", found[0]), slog.String("nearest", found[1]))
			}
			if supervised {
				d.boss = newBoss(cmd.InOrStdin(), cmd.OutOrStdout())
			}
			return d.run()
		},
	}
	f := cmd.Flags()
	s.define(f)
	f.BoolVar(&supervised, "supervised", false, "report to a parent process, and end with it")
	if err := f.MarkHidden("supervised"); err != nil {
		panic(err) // the flag is defined on the line before
	}
	return cmd
}

func newLogger(w io.Writer, format, level string) *slog.Logger {
	if format == "console" {
		file, ok := w.(*os.File)
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.DateTime, NoColor: !ok || !isTerminal(file)}
	}
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		panic(err) // resolve let only known levels pass
	}
	return slog.New(zslog.NewHandler(zerolog.New(w).With().Timestamp().Logger().Level(l)))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// daemon is the process of one node.
type daemon struct {
	config    cluster.Config
	flags     *pflag.FlagSet // that config was read from
	log       *slog.Logger
	others    *admin.Others
	listening chan *cluster.Node // gets the node before it has joined
	boss      *boss              // nil for a process of its own

	admin  string // where the admin API listens, or adminOff
	access []admin.AccessOption
	write  bool // it may act

	flights string // folder of traces, empty for none
}

// quietBuffers is the switch that quic-go has for a warning of its own, which
// comes on standard error, not as a line of the log. The node tells the same with
// advice.
const quietBuffers = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"

// run is the whole life of the process.
func (d *daemon) run() error {
	if err := os.Setenv(quietBuffers, "true"); err != nil {
		return err
	}
	d.config.Receiver = receiver.NewMux()
	d.others = admin.Answer(d.config.Receiver, build())
	ctx, stop := untilSignal(d.log)
	defer stop()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	if d.admin != adminOff {
		l, err := admin.Listen(d.admin, d.access...)
		if err != nil {
			return fmt.Errorf("%s: %w", given(d.flags, "admin"), err)
		}
		d.admin = admin.AddrOf(l)
		defer d.serve(l, func() {
			d.log.Info("told to leave by the admin API")
			leave(errStopped)
		})()
	}
	var recorded *flight
	if d.flights != "" {
		var err error
		if recorded, err = newFlight(d.flights, d.log); err != nil {
			return fmt.Errorf("%s: %w", given(d.flags, "flight-recorder"), err)
		}
	}
	d.logStart()
	opts := []cluster.Option{
		cluster.WithLogger(d.log),
		cluster.WithListening(func(n *cluster.Node) { d.others.Use(n); d.listening <- n }),
	}
	if d.boss != nil {
		opts = append(opts, cluster.WithTransport(d.boss.network(d.config, d.admin)))
	}
	node, err := cluster.Start(ctx, d.config, opts...)
	mismatch, isMismatch := errors.AsType[*cluster.StoreMismatchError](err)
	switch {
	case isMismatch:
		return usageError{storeFault(d.flags, mismatch)}
	case errors.Is(context.Cause(ctx), errStopped) && err != nil:
		d.log.Info("stopped before it had joined")
		return nil
	case err != nil:
		return allowed(flagError{err, d.flags}, "data-dir")
	}
	if d.boss != nil {
		go d.boss.report(node)
	}
	if recorded != nil {
		go recorded.watch(ctx, node)
	}
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
	c := d.config.WithDefaults()
	d.log.Info("starting", slog.String("address", c.Advertise), slog.String("cluster", c.Cluster),
		slog.Int("size", c.Size), slog.String("admin", d.admin),
		slog.String("data", cmp.Or(d.config.DataDir, "memory")))
	if limit, known := openFilesLimit(); known && limit < neededFiles {
		d.log.Warn("few open files are allowed, so that callers may find the admin API closed: "+
			"raise the limit with ulimit -n, or LimitNOFILE of systemd",
			slog.Uint64("limit", limit), slog.Uint64("want", neededFiles))
	}
}

// allowed says what to do where the system does not let this process have a file below
// the path of a flag, and who it runs as.
func allowed(err error, flag string) error {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(at, fs.ErrPermission) {
		return err
	}
	who := strconv.Itoa(os.Geteuid())
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	return fmt.Errorf("%w; this process runs as user %s: start it as the owner of %s, let that "+
		"user read and write it, or name another --%s", err, who, at.Path, flag)
}

// serve answers the admin API from when there is a node to ask, until what it
// returns is called. leave makes this process leave and end.
func (d *daemon) serve(l net.Listener, leave func()) (stop func()) {
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
			if d.write {
				opts = append(opts, admin.WithWrite(node, leave))
			}
			err := admin.Serve(ctx, l, admin.New(node, build(), opts...), d.access...)
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
	bound := min(d.config.LeaderTimeout+leaveSpare, maxLeave)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	d.log.Info("leaving the cluster", slog.Int64("timeout_ms", bound.Milliseconds()))
	return node.Leave(ctx)
}

// untilSignal returns a context that ends, with the cause errStopped, at the
// first SIGINT, SIGTERM or SIGHUP. The second one ends the process, unless it comes
// so soon that both are one: timeout(1) and terminals signal whole groups as well.
func untilSignal(log *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first.IsZero():
					log.Info("told to stop; a second signal ends at once",
						slog.String("signal", s.String()))
					first = time.Now()
					cancel(errStopped)
				case time.Since(first) > sameSignal:
					log.Warn("ending at once", slog.String("signal", s.String()))
					os.Exit(exitFailed)
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
