// SPDX-License-Identifier: Apache-2.0

//go:build unix

package programs

import (
	"bytes"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Patience is the timeout of every wait for a real server.
const Patience = time.Minute

// Server is a separate process that runs the service of a Store.
type Server struct {
	t       testing.TB
	command func() *exec.Cmd
	ready   func() error

	cmd    *exec.Cmd
	output bytes.Buffer // output of all runs; read it only while the server is stopped
}

// StartServer starts the command, and waits until the function ready returns nil. The server is
// killed when the test ends.
func StartServer(t testing.TB, command func() *exec.Cmd, ready func() error) *Server {
	t.Helper()
	s := &Server{t: t, command: command, ready: ready}
	s.Start()
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("%q printed:\n%s", s.cmd.Args, s.output.String())
		}
	})
	return s
}

// Start starts the server again and blocks until it is ready.
func (s *Server) Start() {
	s.t.Helper()
	s.cmd = s.command()
	EndWithParent(s.cmd)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var err error
	for end := time.Now().Add(Patience); time.Now().Before(end); Pause(s.t, 20*time.Millisecond) {
		if err = s.ready(); err == nil {
			return
		}
	}
	s.Kill()
	s.t.Fatalf("the server is not ready after %v: %v\n%s", Patience, err, s.output.String())
}

// Kill kills the server and waits until it has ended.
func (s *Server) Kill() {
	s.waitEnd(s.signal(syscall.SIGKILL))
}

// KillParent kills the first process of the server, and waits until the others have ended without
// being killed.
func (s *Server) KillParent() {
	tree := s.signal(syscall.SIGSTOP)
	_ = s.cmd.Process.Kill() // cannot fail: it is stopped
	for _, pid := range tree {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	s.waitEnd(tree)
}

// waitEnd waits until the first process was killed and the processes of the tree have ended.
func (s *Server) waitEnd(tree []int) {
	_ = s.cmd.Wait() // the error reports that it was killed
	for end := time.Now().Add(Patience); slices.ContainsFunc(tree, isRunning); {
		if time.Now().After(end) {
			s.t.Fatalf("a process of the server is running after %v", Patience)
		}
		Pause(s.t, time.Millisecond)
	}
}

// Pause stops the server until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues the server.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// signal sends a signal to the processes of the server, and returns them. It does nothing if the
// server has ended.
func (s *Server) signal(sig syscall.Signal) (tree []int) {
	if s.cmd.ProcessState != nil {
		return nil
	}
	tree = []int{s.cmd.Process.Pid}
	for i := 0; i < len(tree); i++ {
		if sig != syscall.SIGCONT {
			_ = syscall.Kill(tree[i], syscall.SIGSTOP) // a stopped process starts no others
		}
		tree = append(tree, childrenOf(tree[i])...)
	}
	for _, pid := range tree {
		_ = syscall.Kill(pid, sig)
	}
	return tree
}
