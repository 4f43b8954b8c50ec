// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/internal/steplog"
)

// This program also runs as its own children: roleVariable selects the role of a child, and
// taskVariable contains its task.
const (
	roleVariable = "ATHENA_CHAOS_ROLE"
	taskVariable = "ATHENA_CHAOS_TASK"
	// clockVariable contains the seconds by which the monotonic clock of a child is ahead.
	clockVariable = "ATHENA_CHAOS_CLOCK"

	roleEnter    = "enter"
	roleNode     = "node"
	roleRegister = "register"
	roleTypo     = "typo"
	roleIntruder = "intruder"
)

// exitEvidence is the exit code of a child that cannot record evidence.
const exitEvidence = 3

// childMain runs a child and returns its exit code.
func childMain(role string) int {
	useNames()
	lives := map[string]func(task string) error{
		roleEnter: enterMain, roleNode: nodeMain, roleRegister: registerMain,
		roleTypo: typoMain, roleIntruder: intruderMain,
	}
	life, known := lives[role]
	if !known {
		fmt.Fprintf(os.Stderr, "chaos: %s=%q: unknown role\n", roleVariable, role)
		return 2
	}
	if err := life(os.Getenv(taskVariable)); err != nil {
		fmt.Fprintf(os.Stderr, "chaos: %s: %v\n", role, err)
		return 1
	}
	return 0
}

// place is where a node runs.
type place struct {
	Netns  string // path of the network namespace; empty for the runner's own
	Cgroup string // folder of the memory cgroup; empty for no cgroup
	// Daemon is the command line of a daemon; empty for a node of this program.
	Daemon  []string
	History string // file for the steps of the daemon; empty for none
	Task    string // task of the node
	Program string // path of the program of the node
	Role    string // role of the node
	Names   string // socket of the name server; empty for none
	Clock   int64  // seconds by which the clocks are ahead
}

// enterMain moves the process into its namespace and cgroup and then executes the node. Only one
// thread enters the namespace, so a multithreaded program must be executed again.
func enterMain(task string) error {
	var p place
	if err := json.Unmarshal([]byte(task), &p); err != nil {
		return err
	}
	if p.Cgroup != "" {
		pid := []byte(strconv.Itoa(os.Getpid()))
		if err := os.WriteFile(p.Cgroup+"/cgroup.procs", pid, 0o644); err != nil {
			return err
		}
	}
	if p.Clock != 0 {
		if err := shiftClocks(p.Clock); err != nil {
			return err
		}
	}
	if p.Netns != "" {
		if err := enterNetwork(p.Netns); err != nil {
			return err
		}
	}
	if len(p.Daemon) > 0 {
		err := errors.Join(os.Unsetenv(roleVariable), os.Unsetenv(taskVariable),
			os.Setenv(steplog.Variable, p.History))
		if err != nil {
			return err
		}
		return syscall.Exec(p.Daemon[0], p.Daemon, os.Environ())
	}
	err := errors.Join(os.Setenv(roleVariable, p.Role), os.Setenv(taskVariable, p.Task),
		os.Setenv(namesVariable, p.Names))
	if err != nil {
		return err
	}
	return syscall.Exec(p.Program, os.Args, os.Environ())
}

func canShiftClocks() bool {
	_, err := os.Stat("/proc/self/ns/time")
	return err == nil
}

// shiftClocks sets the monotonic clock and the time since boot ahead for the program that this
// thread executes next.
func shiftClocks(seconds int64) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return fmt.Errorf("create a time namespace: %w", err)
	}
	offsets := fmt.Appendf(nil, "monotonic %d 0\nboottime %d 0\n", seconds, seconds)
	return errors.Join(os.Setenv(clockVariable, strconv.FormatInt(seconds, 10)),
		os.WriteFile(fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid()), offsets, 0o644))
}

// enterNetwork moves this thread into a namespace, before the process executes the node.
func enterNetwork(path string) error {
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	runtime.LockOSThread()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", path, err)
	}
	return nil
}
