// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
)

const (
	// maxDemoSize keeps a demo within what one machine can run.
	maxDemoSize = 25
	// demoTries is how often a demo is begun whose ports were taken.
	demoTries = 3
	// leaderPatience is how long a demo waits for a leader to name.
	leaderPatience = 3 * time.Second
	// maxLogTail is how much of a node's log is shown when it failed.
	maxLogTail = 2 << 10
)

// demo is the verb.
type demo struct {
	began  time.Time
	size   int
	jobs   int
	length time.Duration
	admin  string
	script string
}

var (
	errDemoOver   = errors.New("the time of --for is over")
	errScriptDone = errors.New("the script is done")
	errQuit       = errors.New("SIGQUIT: what each goroutine was doing is above")
)

func newDemo(began time.Time) *cobra.Command {
	d := demo{began: began}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "run a whole cluster on this machine, to look at and to break",
		Long: "demo runs nodes, each a process of its own, on loopback addresses, with the timings\n" +
			"of a local network, and prints the address of a page that shows them, then what\n" +
			"happens, in seconds since it began. Break them as you like, on the page or by hand, or\n" +
			"let a script do it: failover kills the leader and starts it again, partition cuts the\n" +
			"leader off with a minority and heals, rolling restarts every node. The nodes contend for\n" +
			"--jobs jobs, which nobody works on, and whoever asks them may lock and elect.",
		Example: "  athena demo\n  athena demo --size 3 --for 30s --script failover",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			warnMisspelled(cmd.ErrOrStderr(), os.Environ())
			if err := fromEnvironment(cmd.Flags(), os.Getenv, "admin"); err != nil {
				return err
			}
			if err := d.validate(cmd.Flags()); err != nil {
				return usageError{err}
			}
			return d.run(cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&d.size, "size", 5, "number of nodes")
	f.IntVar(&d.jobs, "jobs", 3, "number of jobs that the nodes contend for, to look at")
	f.DurationVar(&d.length, "for", 0, "end after this time, 0 for never")
	f.StringVar(&d.admin, "admin", defaultAdmin,
		"page and admin API of the whole demo: host:port on loopback or unix:PATH; also ATHENA_ADMIN")
	f.StringVar(&d.script, "script", "", "failover, partition or rolling; ends when it is done")
	return cmd
}

func (d *demo) validate(f *pflag.FlagSet) error {
	if d.size < 1 || d.size > maxDemoSize {
		return fmt.Errorf("--size %d: must be between 1 and %d", d.size, maxDemoSize)
	}
	if d.jobs < 0 || d.jobs > maxDemoJobs {
		return fmt.Errorf("--jobs %d: must be between 0 and %d", d.jobs, maxDemoJobs)
	}
	if d.length < 0 {
		return fmt.Errorf("--for %v: must not be negative", d.length)
	}
	if _, known := scripts[d.script]; !known && d.script != "" {
		return fmt.Errorf("--script %q: must be failover, partition or rolling", d.script)
	}
	if d.script != "" && d.size < 3 {
		return fmt.Errorf("--script %s needs --size 3 or more: fewer nodes survive nothing", d.script)
	}
	if err := admin.CheckListen(d.admin); err != nil {
		return fmt.Errorf("%s: %w", given(f, "admin"), err)
	}
	return nil
}

// run shows the demo until it is over.
func (d *demo) run(out, errOut io.Writer) error {
	ctx, out, stop := untilDemoEnds(out, errOut)
	defer stop()
	if d.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.length, errDemoOver)
		defer cancel()
	}
	l, err := d.listen(errOut)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "athena-demo-")
	if err != nil {
		l.Close()
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(out, where(l))
	f, err := d.form(ctx, dir, out)
	if err != nil {
		l.Close()
		return err
	}
	defer f.close()
	d.explain(ctx, out, f, l)
	err = d.play(ctx, f, l)
	if errors.Is(err, errStopped) || errors.Is(err, errDemoOver) || errors.Is(err, errScriptDone) {
		fmt.Fprintf(out, "%9.3f s  the end: %v\n", time.Since(d.began).Seconds(), err)
		return nil
	}
	return err
}

// play serves the API and runs the script until something ends.
func (d *demo) play(ctx context.Context, f *fleet, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.contend(ctx, d.jobs)
	served := make(chan struct{})
	go func() {
		defer close(served)
		cancel(admin.Serve(ctx, l, newDemoAPI(f)))
	}()
	if d.script != "" {
		err := scripts[d.script](ctx, f)
		if err == nil {
			err = errScriptDone
		}
		cancel(err)
	}
	<-ctx.Done()
	<-served
	return context.Cause(ctx)
}

// listen opens the admin API, on another port where the wanted one is taken.
func (d *demo) listen(errOut io.Writer) (net.Listener, error) {
	l, err := admin.Listen(d.admin)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	host, _, splitErr := net.SplitHostPort(d.admin)
	if splitErr != nil {
		return nil, err
	}
	l, err = admin.Listen(net.JoinHostPort(host, "0"))
	if err == nil {
		fmt.Fprintf(errOut, "athena: %s is taken by another process; using %s in its place\n",
			d.admin, admin.AddrOf(l))
	}
	return l, err
}

// where says where the demo can be looked at: with a browser, unless it is a socket.
func where(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "admin API  " + admin.AddrOf(l)
	}
	return "dashboard  http://" + admin.AddrOf(l) + "/"
}

// explain prints where everything is, and, unless a script plays, commands to paste,
// for the leader above all.
func (d *demo) explain(ctx context.Context, out io.Writer, f *fleet, l net.Listener) {
	nodes := f.entries(f.nodes...)
	for _, e := range nodes {
		fmt.Fprintf(out, "%-9s  %s, process %d\n", e.Name, e.Address, e.PID)
	}
	if d.script != "" {
		return
	}
	curl, host := "curl -X POST", admin.AddrOf(l)
	if l.Addr().Network() == "unix" {
		curl += " --unix-socket " + shellWord(l.Addr().String())
		host = "localhost"
	}
	e, what := nodes[0], "a node"
	if leader := f.firstLeader(ctx); leader != nil {
		e, what = f.entries(leader)[0], "the leader"
	}
	fmt.Fprintf(out, "ask        %s members --admin %s\n", self(), shellWord(admin.AddrOf(l)))
	fmt.Fprintf(out, "break      kill -9 %d\n           kills %s, %s\n", e.PID, e.Name, what)
	fmt.Fprintf(out, "mend       %s http://%s/v1/nodes/%s/restart\n", curl, host, e.Name)
	fmt.Fprintln(out, "           in place of restart: kill, pause, resume, cut, heal")
}

// firstLeader waits a moment for somebody who leads, and returns nil where nobody
// does by then.
func (f *fleet) firstLeader(ctx context.Context) (leader *node) {
	ctx, cancel := context.WithTimeout(ctx, leaderPatience)
	defer cancel()
	_, _ = f.wait(ctx, func() bool {
		leader = leaderOf(f.nodes)
		return leader != nil
	})
	return leader
}

// form starts the nodes. Where one fails because its port was taken in the
// meantime, all begin anew on others.
func (d *demo) form(ctx context.Context, dir string, out io.Writer) (*fleet, error) {
	for try := 1; ; try++ {
		f, err := newFleet(filepath.Join(dir, strconv.Itoa(try)), d.size,
			&narrator{out: out, began: d.began})
		if err != nil {
			return nil, err
		}
		for _, n := range f.nodes {
			if err := f.start(n); err != nil {
				f.close()
				return nil, fmt.Errorf("start %s: %w", n.name, err)
			}
		}
		failed, err := f.allListen(ctx)
		if failed == nil && err == nil {
			return f, nil
		}
		f.close()
		if err != nil {
			return nil, err
		}
		log := f.logTail(failed)
		if try == demoTries || !strings.Contains(log, "in use") {
			return nil, fmt.Errorf("%s could not start:\n%s", failed.name, log)
		}
		f.note("the port of %s was taken meanwhile; beginning anew on others", failed.name)
	}
}

// allListen waits until every node listens, or one has failed.
func (f *fleet) allListen(ctx context.Context) (failed *node, err error) {
	_, err = f.wait(ctx, func() bool {
		failed = nil
		listening := 0
		for _, n := range f.nodes {
			if n.proc == nil {
				failed = n
			}
			if n.admin != "" {
				listening++
			}
		}
		return failed != nil || listening == len(f.nodes)
	})
	return failed, err
}

// logTail is the end of a node's log.
func (f *fleet) logTail(n *node) string {
	text, err := os.ReadFile(f.logOf(n))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-maxLogTail):])
}

// others are the nodes but one.
func (f *fleet) others(but *node) []*node {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(n *node) bool { return n == but })
}
