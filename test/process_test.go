// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

// patience is the longest wait for real processes. It is long because speed is measured
// elsewhere and this machine may be busy.
const patience = time.Minute

// program builds athena once for all tests of processes.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "athena-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "athena")
	build := exec.Command("go", "build", "-o", path, "./cmd/athena")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return path, fmt.Errorf("go build ./cmd/athena: %w\n%s", err, out)
	}
	return path, nil
})

// TestMain unsets the ATHENA_ variables of the user's shell. Otherwise the commands that tests run
// in a shell would use them.
func TestMain(m *testing.M) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "ATHENA_") {
			os.Unsetenv(name)
		}
	}
	code := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// process is a running athena.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr text
	exited         chan struct{}
}

// text collects the output of a process and can be read while it runs.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// start runs athena without the user's settings, and kills it when the test ends.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startTo(t, nil, args...)
}

// startTo is like start, but sends standard output to stdout unless stdout is nil.
func startTo(t *testing.T, stdout io.Writer, args ...string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return startCommand(t, stdout, exec.Command(path, args...))
}

// startCommand is like startTo, but for a command that executes athena.
func startCommand(t *testing.T, stdout io.Writer, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	p.cmd.WaitDelay = patience // for children that keep its output open
	home := t.TempDir()
	p.cmd.Env = append(p.cmd.Env, "HOME="+home, "TMPDIR="+home, "PATH="+os.Getenv("PATH"))
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the tests check the exit code
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGKILL)
		<-p.exited
		if t.Failed() {
			t.Logf("%q\nstandard output:\n%s\nstandard error:\n%s", cmd.Args, &p.stdout, &p.stderr)
		}
	})
	return p
}

// run runs athena to its end and returns the exit code.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, args...)
	code = p.wait()
	return code, p.stdout.String(), p.stderr.String()
}

// wait returns the exit code, or -1 after a signal.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("athena %q: still running after %v", p.cmd.Args[1:], patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// eventually waits until the given function returns true. It polls often, because some
// tests measure times with it.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// nodes is a cluster of processes, numbered from 1.
type nodes struct {
	t     *testing.T
	dir   string
	addrs []string
	seeds []string // nil if every node is a seed

	clients *sync.Map // number of a node to its *adminclient.Client
}

func newNodes(t *testing.T, size int) *nodes {
	t.Helper()
	// The path is short because the path of a socket must be.
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &nodes{t: t, dir: dir, addrs: freeAddresses(t, size), clients: new(sync.Map)}
	c.secret("secret", string(cluster.NewSecret()))
	return c
}

// secret writes a file with a secret and returns its path.
func (c *nodes) secret(name, content string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func (c *nodes) store(i int) string { return filepath.Join(c.dir, "store"+strconv.Itoa(i)) }
func (c *nodes) admin(i int) string { return "unix:" + filepath.Join(c.dir, strconv.Itoa(i)) }

// flags returns the flags of node i; later flags override earlier ones.
func (c *nodes) flags(i int, more ...string) []string {
	seeds := c.seeds
	if seeds == nil {
		seeds = c.addrs
	}
	return append([]string{
		"run", "--addr", c.addrs[i-1], "--name", "n" + strconv.Itoa(i),
		"--size", strconv.Itoa(len(c.addrs)), "--seeds", strings.Join(seeds, ","),
		"--secret-file", filepath.Join(c.dir, "secret"), "--data-dir", c.store(i), "--admin", c.admin(i),
	}, more...)
}

func (c *nodes) start(i int, more ...string) *process {
	c.t.Helper()
	return start(c.t, c.flags(i, more...)...)
}

// startAll starts every node, waits until all are active, and returns them with the number of
// the leader.
func (c *nodes) startAll() (all []*process, leader int) {
	c.t.Helper()
	var numbers []int
	for i := range c.addrs {
		all = append(all, c.start(i+1))
		numbers = append(numbers, i+1)
	}
	return all, c.settle(numbers...)
}

// openClient returns a client of node i, which keeps its connection.
func (c *nodes) openClient(i int) *adminclient.Client {
	c.t.Helper()
	if kept, ok := c.clients.Load(i); ok {
		return kept.(*adminclient.Client)
	}
	made, err := adminclient.New(c.admin(i))
	if err != nil {
		c.t.Fatal(err)
	}
	c.clients.Store(i, made)
	return made
}

// status returns the status of node i, or false if it does not answer.
func (c *nodes) status(i int) (adminapi.Status, bool) {
	c.t.Helper()
	s, err := c.openClient(i).Status(c.t.Context())
	return s, err == nil
}

// settle waits until exactly these nodes are active members under one quorate leader, and returns
// its number.
func (c *nodes) settle(numbers ...int) (leader int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("nodes %v active under one leader", numbers), func() bool {
		var token uint64
		for _, i := range numbers {
			s, ok := c.status(i)
			if !ok || s.Token == 0 || token != 0 && s.Token != token || s.Active() != len(numbers) {
				return false
			}
			token = s.Token
			if s.IsLeader() {
				leader = i
			}
		}
		return leader != 0
	})
	return leader
}
