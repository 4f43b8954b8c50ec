// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
)

// guardedConfig is the variable with the configuration of a process of TestGuard: its address, its
// directory and the seeds.
const guardedConfig = "ATHENA_TEST_GUARDED"

// leads is the line of a process of TestGuard that leads.
const leads = "this process leads"

// TestGuardedProcess is the program of the processes of TestGuard.
func TestGuardedProcess(t *testing.T) {
	words := strings.Fields(os.Getenv(guardedConfig))
	if len(words) < 3 {
		t.Skip("TestGuard runs it")
	}
	cfg := cluster.WANConfig() // its timeouts are long
	cfg.Addr, cfg.DataDir, cfg.Seeds, cfg.Size = words[0], words[1], words[2:], 3
	cfg.Insecure = true
	log := cluster.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err := cluster.Guard(cfg, log); err != nil {
		t.Fatal(err)
	}
	n, err := cluster.Start(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	for term := range n.Terms(t.Context()) {
		if term.Leader() == n.Self().Address.String() {
			fmt.Fprintln(os.Stderr, leads)
		}
	}
}

// guardedProcess is a running process of TestGuard.
type guardedProcess struct {
	*exec.Cmd
	lines chan string // of its log and of that of its guard; closed when both have ended
}

// startGuarded starts a process. It is sent to leading each time that it leads.
func startGuarded(
	t *testing.T, addr string, seeds []string, leading chan<- *guardedProcess,
) *guardedProcess {
	t.Helper()
	p := &guardedProcess{exec.Command(os.Args[0], "-test.run=^TestGuardedProcess$"),
		make(chan string, 10_000)}
	p.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", guardedConfig, addr, t.TempDir(),
		strings.Join(seeds, " ")))
	log, err := p.StderrPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go p.readLog(log, leading)
	t.Cleanup(func() {
		_ = p.Process.Kill() // fails if it has ended
		for range p.lines {
		}
		_ = p.Wait() // it was killed
	})
	return p
}

func (p *guardedProcess) readLog(log io.Reader, leading chan<- *guardedProcess) {
	defer close(p.lines)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if lines.Text() == leads {
			leading <- p
		}
		p.lines <- lines.Text()
	}
}

// awaitLine waits for a line with a text.
func (p *guardedProcess) awaitLine(t *testing.T, text string) {
	t.Helper()
	var before []string
	for late := time.After(time.Minute); ; {
		select {
		case line, more := <-p.lines:
			if strings.Contains(line, text) {
				return
			}
			if before = append(before, line); more {
				continue
			}
		case <-late:
		}
		t.Fatalf("no line %q after\n%s", text, strings.Join(before, "\n"))
	}
}

// awaitGuard waits until the process has a guard, and returns the id of the guard.
func (p *guardedProcess) awaitGuard(t *testing.T) int {
	t.Helper()
	for late := time.Now().Add(time.Minute); time.Now().Before(late); {
		out, err := exec.Command("pgrep", "-P", strconv.Itoa(p.Process.Pid)).Output()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("pgrep is not installed")
		}
		if id, err := strconv.Atoi(strings.TrimSpace(string(out))); err == nil {
			return id
		}
	}
	t.Fatal("no guard within a minute")
	return 0
}

// TestGuard kills a leader, whose guard informs the others, and then all of them, whose guards
// reach no member.
func TestGuard(t *testing.T) {
	t.Parallel()
	var addrs []string
	for range 3 {
		addrs = append(addrs, freePort(t))
	}
	leading := make(chan *guardedProcess, 100)
	next := func(but *guardedProcess) *guardedProcess {
		for late := time.After(time.Minute); ; {
			select {
			case p := <-leading:
				if p != but { // a busy machine may have interrupted its authority before
					return p
				}
			case <-late:
				t.Fatal("no process leads")
			}
		}
	}
	var all []*guardedProcess
	for _, addr := range addrs {
		all = append(all, startGuarded(t, addr, addrs, leading))
	}
	led := next(nil)
	if err := syscall.Kill(led.awaitGuard(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	led.awaitLine(t, "the guard of this process has ended: another one replaces it")
	led.awaitGuard(t)
	if err := led.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next(led)
	t.Logf("another process leads after %v", time.Since(began))
	led.awaitLine(t, "announced that the process of this node has ended")
	for _, p := range all {
		_ = p.Process.Kill() // one has ended
	}
	for _, p := range all {
		if p != led {
			p.awaitLine(t, "cannot announce the end of the process of this node")
		}
	}
}
