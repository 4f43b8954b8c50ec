// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

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

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

const (
	// maxStarts limits the attempts to start all nodes if their ports are in use.
	maxStarts = 3
	// leaderTimeout limits how long to wait for a leader before the help is printed.
	leaderTimeout = 3 * time.Second
	// maxLogTail is the size of the end of a node's log that is printed if the node fails to start.
	maxLogTail = 2 << 10
)

var (
	errTimeOver   = errors.New("the duration of --for has passed")
	errScriptDone = errors.New("the script is finished")
	errQuit       = errors.New("SIGQUIT: the stacks of all goroutines are above")
)

// Run runs the demo until a signal arrives, --for has passed or the script ends.
func (d *Options) Run(out, errOut io.Writer) error {
	ctx, out, stop := untilDemoEnds(out, errOut)
	defer stop()
	if d.Length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.Length, errTimeOver)
		defer cancel()
	}
	l, err := d.listenAdmin(errOut)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "athena-demo-")
	if err != nil {
		l.Close()
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(out, describeAddress(l))
	f, err := d.formFleet(ctx, dir, out)
	if err != nil {
		l.Close()
		return err
	}
	defer f.killAll()
	d.printHelp(ctx, out, f, l)
	err = d.playScript(ctx, f, l)
	if errors.Is(err, cli.ErrStopped) || errors.Is(err, errTimeOver) || errors.Is(err, errScriptDone) {
		fmt.Fprintf(out, "%9.3f s  demo ended: %v\n", time.Since(d.Began).Seconds(), err)
		return nil
	}
	return err
}

// playScript serves the API and runs the script until ctx ends or one of them returns. It returns
// the cause.
func (d *Options) playScript(ctx context.Context, f *fleet, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.campaignForJobs(ctx, d.Jobs)
	served := make(chan struct{})
	go func() {
		defer close(served)
		cancel(admin.Serve(ctx, l, newDemoAPI(f)))
	}()
	if d.Script != "" {
		err := scripts[d.Script](ctx, f)
		if err == nil {
			err = errScriptDone
		}
		cancel(err)
	}
	<-ctx.Done()
	<-served
	return context.Cause(ctx)
}

// listenAdmin listens on the address of the admin API, or on a free port if the address is in use.
func (d *Options) listenAdmin(errOut io.Writer) (net.Listener, error) {
	l, err := admin.Listen(d.Admin)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	host, _, splitErr := net.SplitHostPort(d.Admin)
	if splitErr != nil {
		return nil, err
	}
	l, err = admin.Listen(net.JoinHostPort(host, "0"))
	if err == nil {
		fmt.Fprintf(errOut, "athena: %s is in use by another process; using %s instead\n",
			d.Admin, admin.AddrOf(l))
	}
	return l, err
}

// describeAddress returns the first line of the demo: the address of the dashboard. If the admin
// API is on a Unix socket, it returns the address of the API instead.
func describeAddress(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "admin API  " + admin.AddrOf(l)
	}
	return "dashboard  http://" + admin.AddrOf(l) + "/"
}

// printHelp prints the nodes. If no script runs, it also prints commands to copy, which refer to
// the leader.
func (d *Options) printHelp(ctx context.Context, out io.Writer, f *fleet, l net.Listener) {
	nodes := f.listEntries(f.nodes...)
	for _, e := range nodes {
		fmt.Fprintf(out, "%-9s  %s, process %d\n", e.Name, e.Address, e.PID)
	}
	if d.Script != "" {
		return
	}
	curl, host := "curl -X POST", admin.AddrOf(l)
	if l.Addr().Network() == "unix" {
		curl += " --unix-socket " + cli.ShellWord(l.Addr().String())
		host = "localhost"
	}
	e, what := nodes[0], "a node"
	if leader := f.firstLeader(ctx); leader != nil {
		e, what = f.listEntries(leader)[0], "the leader"
	}
	fmt.Fprintf(out, "query      %s members --admin %s\n", cli.Self(), cli.ShellWord(admin.AddrOf(l)))
	fmt.Fprintf(out, "kill       kill -9 %d    # %s, %s\n", e.PID, e.Name, what)
	fmt.Fprintf(out, "restart    %s http://%s/v1/nodes/%s/restart\n", curl, host, e.Name)
	fmt.Fprintln(out, "           or, instead of restart: kill, pause, resume, cut, heal")
}

// firstLeader waits up to leaderTimeout for a leader, and returns nil if there is none.
func (f *fleet) firstLeader(ctx context.Context) (leader *node) {
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	_, _ = f.waitUntil(ctx, func() bool {
		leader = leaderOf(f.nodes)
		return leader != nil
	})
	return leader
}

// formFleet starts the nodes. If a port is in use, it starts all nodes again on other ports.
func (d *Options) formFleet(ctx context.Context, dir string, out io.Writer) (*fleet, error) {
	for try := 1; ; try++ {
		f, err := newFleet(filepath.Join(dir, strconv.Itoa(try)), d.Size,
			&narrator{out: out, began: d.Began})
		if err != nil {
			return nil, err
		}
		for _, n := range f.nodes {
			if err := f.startNode(n); err != nil {
				f.killAll()
				return nil, fmt.Errorf("start %s: %w", n.name, err)
			}
		}
		failed, err := f.allListen(ctx)
		if failed == nil && err == nil {
			return f, nil
		}
		f.killAll()
		if err != nil {
			return nil, err
		}
		log := f.logTail(failed)
		if try == maxStarts || !strings.Contains(log, "in use") {
			return nil, fmt.Errorf("%s failed to start; its log ends with:\n%s", failed.name, log)
		}
		f.printNote("the port of %s is in use; trying other ports", failed.name)
	}
}

// allListen waits until all nodes listen, or returns the first node that failed.
func (f *fleet) allListen(ctx context.Context) (failed *node, err error) {
	_, err = f.waitUntil(ctx, func() bool {
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

// logTail returns the end of a node's log.
func (f *fleet) logTail(n *node) string {
	text, err := os.ReadFile(f.logOf(n))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-maxLogTail):])
}

// otherNodes returns all nodes except one.
func (f *fleet) otherNodes(but *node) []*node {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(n *node) bool { return n == but })
}
