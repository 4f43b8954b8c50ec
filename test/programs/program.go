// SPDX-License-Identifier: Apache-2.0

//go:build unix

package programs

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Programs are processes that run a program, each with a node of one cluster, and their output.
type Programs struct {
	t       testing.TB
	command func(i int) *exec.Cmd
	dir     string
	nodes   []string // addresses
	running []process

	mu      sync.Mutex
	printed []line
}

type process struct {
	*os.Process
	ended chan struct{} // closed when its output ends
}

type line struct {
	by   int
	text string
}

// StartPrograms starts three processes. They find the parameters of their node in the environment:
// ADDR, SEEDS and DATA_DIR.
func StartPrograms(t testing.TB, command func(i int) *exec.Cmd) *Programs {
	t.Helper()
	p := &Programs{t: t, command: command, dir: t.TempDir(), running: make([]process, 3)}
	for range p.running {
		p.nodes = append(p.nodes, FreeAddress(t))
	}
	t.Cleanup(func() {
		for i, running := range p.running {
			if running.Process != nil {
				p.End(i, syscall.SIGKILL)
			}
		}
		if t.Failed() {
			for _, l := range p.printed {
				t.Logf("process %d: %s", l.by, l.text)
			}
		}
	})
	for i := range p.running {
		p.Start(i)
	}
	return p
}

// Start starts a process again.
func (p *Programs) Start(i int) {
	p.t.Helper()
	cmd := p.command(i)
	cmd.Env = append(os.Environ(), cmd.Env...)
	cmd.Env = append(cmd.Env, "ADDR="+p.nodes[i], "SEEDS="+strings.Join(p.nodes, " "),
		"DATA_DIR="+filepath.Join(p.dir, fmt.Sprint(i)))
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	EndWithParent(cmd)
	err = cmd.Start()
	w.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan struct{})
	p.running[i] = process{cmd.Process, ended}
	go func() {
		defer close(ended)
		defer r.Close()
		for lines := bufio.NewScanner(r); lines.Scan(); {
			p.mu.Lock()
			p.printed = append(p.printed, line{i, lines.Text()})
			p.mu.Unlock()
		}
		_ = cmd.Wait() // most processes are killed
	}()
}

// End sends a signal to a process and waits for its end. It returns a mark: what was printed later
// is not from that process.
func (p *Programs) End(i int, sig syscall.Signal) (mark int) {
	p.t.Helper()
	_ = p.running[i].Signal(sig) // it may have ended
	select {
	case <-p.running[i].ended:
	case <-time.After(Patience):
		p.t.Fatalf("process %d has not ended %v after signal %v", i, Patience, sig)
	}
	return p.Mark()
}

// Mark returns the number of lines that were printed so far.
func (p *Programs) Mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.printed)
}

// listWorkers returns the processes that have printed a line with the text since a mark, one for
// each line.
func (p *Programs) listWorkers(since int, text string) (by []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.printed[since:] {
		if strings.Contains(l.text, text) {
			by = append(by, l.by)
		}
	}
	return by
}

// NextWorker waits until a process has printed n lines with the text since a mark, and returns this
// process. The test fails if another process prints one.
func (p *Programs) NextWorker(since, n int, text string) int {
	p.t.Helper()
	for end := time.Now().Add(Patience); time.Now().Before(end); Pause(p.t, 20*time.Millisecond) {
		by := p.listWorkers(since, text)
		for _, other := range by {
			if other != by[0] {
				p.t.Fatalf("processes %d and %d have printed %q", by[0], other, text)
			}
		}
		if len(by) >= n {
			return by[0]
		}
	}
	p.t.Fatalf("no process has printed %q %d times within %v", text, n, Patience)
	return 0
}
