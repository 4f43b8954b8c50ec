// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package children runs the child processes of a measurement. They are copies of this program,
// take orders on standard input and report on standard output, both as lines of JSON.
package children

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxLineBytes bounds a line of a child.
const maxLineBytes = 64 << 10

var (
	// ErrSlow is the error of a wait that timed out.
	ErrSlow = errors.New("timed out")
	// ErrEnded is the error of a wait for a process that ended by itself.
	ErrEnded = errors.New("a process ended by itself")
)

// Command returns a command that runs this program again, with task as JSON in an environment
// variable. The child dies with this process.
func Command(variable string, task any) (*exec.Cmd, error) {
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), variable+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// Group is a set of child processes. Its mutex guards what they report.
type Group struct {
	all   []*Process
	ended sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
}

// NewGroup returns a group without processes.
func NewGroup() *Group { return &Group{changed: make(chan struct{})} }

// Process is a child process.
type Process struct {
	Ended <-chan struct{} // closed when the process has ended

	group *Group
	cmd   *exec.Cmd
	in    io.WriteCloser
	dead  bool // killed or stopped by Signal; guarded by Group.mu
}

// Start starts a process and calls onLine with each line that it prints, until it ends.
func (g *Group) Start(cmd *exec.Cmd, onLine func(line []byte)) (*Process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	p := &Process{Ended: ended, group: g, cmd: cmd, in: in}
	g.all = append(g.all, p)
	g.ended.Go(func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, maxLineBytes)
		for lines.Scan() {
			onLine(lines.Bytes())
		}
		_ = cmd.Wait() // a failure shows as ErrEnded
		close(ended)
		g.Change(func() {})
	})
	return p, nil
}

// Change calls do with the mutex held, and makes every WaitUntil check its condition again.
func (g *Group) Change(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
	close(g.changed)
	g.changed = make(chan struct{})
}

// Read calls do with the mutex held.
func (g *Group) Read(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
}

// WaitUntil blocks until a condition is met, which it checks with the mutex held. It returns
// ErrEnded if a process ends by itself, ErrSlow after the timeout, and the cause of ctx if ctx is
// done.
func (g *Group) WaitUntil(ctx context.Context, timeout time.Duration, is func() bool) error {
	late := time.After(timeout)
	for {
		g.mu.Lock()
		if is() {
			g.mu.Unlock()
			return nil
		}
		failed := g.hasFailed()
		changed := g.changed
		g.mu.Unlock()
		if failed {
			return ErrEnded
		}
		select {
		case <-changed:
		case <-late:
			return fmt.Errorf("%w (%v)", ErrSlow, timeout)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// hasFailed reports whether a process ended by itself. g.mu must be held.
func (g *Group) hasFailed() bool {
	for _, p := range g.all {
		select {
		case <-p.Ended:
			if !p.dead {
				return true
			}
		default:
		}
	}
	return false
}

// KillAll kills all processes with their groups, and waits until they have ended.
func (g *Group) KillAll() {
	for _, p := range g.all {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // fails only if all have ended
	}
	g.ended.Wait()
}

// Send sends an order.
func (p *Process) Send(order any) error { return json.NewEncoder(p.in).Encode(order) }

// Alive reports whether neither Signal nor the process itself has ended the process. It must be
// called within Read, Change or WaitUntil.
func (p *Process) Alive() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return !p.dead
	}
}

// Signal sends a signal that kills or stops the process, which then is not alive. It returns the
// time before that.
func (p *Process) Signal(s syscall.Signal) (at int64, err error) {
	p.group.Read(func() { p.dead = true })
	at = ReadMonotonic()
	return at, p.cmd.Process.Signal(s)
}

// Usage returns the CPU time that the process has used, in nanoseconds, and its resident memory in
// bytes. It sums threads, because the times of /proc/PID/stat are in clock ticks, which are too
// coarse.
func (p *Process) Usage() (cpu, memory float64, err error) {
	root := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
	threads, err := filepath.Glob(root + "/task/*/schedstat")
	if err != nil {
		return 0, 0, err
	}
	for _, t := range threads {
		used, _, err := readPair(t)
		if err != nil {
			return 0, 0, err
		}
		cpu += used
	}
	_, pages, err := readPair(root + "/statm")
	return cpu, pages * float64(os.Getpagesize()), err
}

// readPair reads the first two numbers of a file, which are 0 if the thread or process has ended.
func readPair(path string) (first, second float64, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, 0, nil
	}
	if err == nil {
		_, err = fmt.Sscan(string(text), &first, &second)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	return first, second, nil
}

// ReadMonotonic returns the time, in nanoseconds, of the clock that all processes of the machine
// share.
func ReadMonotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("children: no monotonic clock: %v", err)) // never fails on Linux
	}
	return t.Nano()
}
