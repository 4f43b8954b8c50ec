// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// insideVariable is set in the environment of the program inside the namespace.
const insideVariable = "ATHENA_PEERS_INSIDE"

// enterNamespace runs this program again in a new network namespace and ends this process with its
// exit code. Inside the namespace it returns: all ports and packet counters there belong to this
// run. A user other than root also gets a new user namespace, because only root may create a
// network namespace.
func enterNamespace() error {
	if os.Getenv(insideVariable) != "" {
		return bringLoopbackUp()
	}
	system := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		system.Cloneflags |= syscall.CLONE_NEWUSER
		system.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		system.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	// The inner process handles interrupts. This one ignores them, and waits until the inner one has
	// cleaned up.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
	inner, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Env:   append(os.Environ(), insideVariable+"=1"),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   system,
	})
	if err != nil {
		return fmt.Errorf("create a network namespace: %w", err)
	}
	state, err := inner.Wait()
	if err != nil {
		return err
	}
	if !state.Exited() {
		return fmt.Errorf("the measurement ended by a signal: %v", state)
	}
	os.Exit(state.ExitCode())
	return nil
}

// bringLoopbackUp starts the loopback interface, which is down in a new namespace.
func bringLoopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	var request struct { // struct ifreq
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = unix.IFF_UP | unix.IFF_RUNNING
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCSIFFLAGS,
		uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return fmt.Errorf("bring the loopback interface up: %w", errno)
	}
	return nil
}

// countPackets returns the packets that the loopback interface has received.
func countPackets() (packets float64, err error) {
	file, err := os.Open("/proc/self/net/dev")
	if err != nil {
		return 0, err
	}
	defer file.Close() // only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "lo:"); ok {
			var bytes int64
			_, err := fmt.Sscan(rest, &bytes, &packets)
			return packets, err
		}
	}
	return 0, fmt.Errorf("%s: no loopback interface", file.Name())
}

// processorTime returns the CPU time that this process has used, in nanoseconds.
func processorTime() int64 {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		panic(fmt.Sprintf("peers: getrusage: %v", err)) // fails only for a wrong argument
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
