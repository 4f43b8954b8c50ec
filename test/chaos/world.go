// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// worldsDir contains a folder for each run. The run locks it until it ends. The name of the folder
	// is part of the names of everything that the run creates on the machine.
	worldsDir = "/run/athena-chaos"
	lockFile  = "lock"
	// endTimeout is how long a killed process may take to disappear.
	endTimeout = 5 * time.Second
)

// world is everything that a run creates on the machine, except processes and evidence.
type world struct {
	dir  string
	lock *os.File
	net  *network // nil if the nodes share the loopback interface
	// addresses are the addresses of the nodes.
	addresses []string
	unfrozen  error       // why the disks cannot be frozen
	names     *nameServer // nil if the nodes have no names
	memory
}

func needsRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("creating network namespaces requires root")
	}
	return nil
}

// whyUnable returns the reason why a run is not possible here, or "".
func whyUnable() string {
	if err := needsRoot(); err != nil {
		return err.Error()
	}
	for program, debian := range map[string]string{"ip": "iproute2", "nft": "nftables"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Sprintf("%s is not installed (make tools, or apt install %s)", program, debian)
		}
	}
	w, err := newWorld(1, 0)
	if err == nil {
		err = errors.Join(w.net.applyRules(), w.removeAll())
	}
	if err != nil {
		return "cannot create network namespaces on this machine: " + err.Error()
	}
	return ""
}

// newWorld creates the network and the disks. It first removes what killed runs have left. Guests
// are hosts without a disk.
func newWorld(nodes, guests int) (*world, error) {
	if err := cleanLeftovers(); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("athena-%08x", rand.Uint32())
	w := &world{dir: filepath.Join(worldsDir, id)}
	err := w.claimFolder()
	if err == nil {
		w.net, err = newNetwork(id, nodes+guests)
	}
	for i := 0; i < nodes && err == nil; i++ {
		w.addresses = append(w.addresses, addressOf(i))
		var why error
		why, err = mountDisk(w.diskFolder(i))
		w.unfrozen = errors.Join(w.unfrozen, why)
	}
	if err != nil {
		return nil, errors.Join(err, w.removeAll())
	}
	w.memory = newMemory(w.dir, nodes)
	return w, nil
}

// newPlainWorld creates a world on the loopback interface. Its network, disks and memory have no
// faults. It does not need root.
func newPlainWorld(nodes int) (*world, error) {
	dir, err := os.MkdirTemp("", "athena-chaos-world-")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir, unfrozen: errors.New("the disks are folders of this machine")}
	for i := range nodes {
		// All sockets stay open until the end, so that all ports differ.
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err == nil {
			defer c.Close()
			w.addresses = append(w.addresses, c.LocalAddr().String())
			err = os.Mkdir(w.diskFolder(i), 0o700)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("create a world on loopback: %w", err), w.removeAll())
		}
	}
	return w, nil
}

// namespacePath returns the path of a node's namespace, or "".
func (w *world) namespacePath(node int) string {
	if w.net == nil {
		return ""
	}
	return w.net.namespacePath(node)
}

// guestNamespace returns the path of a guest's namespace.
func (w *world) guestNamespace(guest int) string {
	return w.net.namespacePath(len(w.addresses) + guest)
}

// guest returns the address at which a guest listens. Its port is that of no node.
func (w *world) guest(guest int) string {
	return strings.TrimSuffix(addressOf(len(w.addresses)+guest), strconv.Itoa(port)) +
		strconv.Itoa(port+1)
}

// claimFolder creates and locks the folder of the run. It waits until no cleanup is running.
func (w *world) claimFolder() error {
	all, err := lockWorlds()
	if err != nil {
		return err
	}
	defer all.Close()
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		return err
	}
	w.lock, err = lockFolder(w.dir)
	return err
}

// lockWorlds waits for the lock of all runs, which is held while a folder is claimed or a world is
// removed.
func lockWorlds() (*os.File, error) {
	if err := os.MkdirAll(worldsDir, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.Open(worldsDir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// removeAll removes all parts of the world. Without the lock of all runs, the cleanup of another
// run could find the folder after its lock file is removed, and remove the rest simultaneously.
func (w *world) removeAll() error {
	if w.net == nil && w.lock == nil {
		return os.RemoveAll(w.dir)
	}
	all, err := lockWorlds()
	if err != nil {
		return err
	}
	defer all.Close()
	if w.names != nil {
		w.names.Close()
	}
	err = cleanUp(w.dir)
	if w.lock != nil {
		w.lock.Close()
	}
	return err
}

// lockFolder locks a folder for the life of the process. The error is EWOULDBLOCK if another
// process has the lock.
func lockFolder(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// cleanLeftovers removes what killed runs have left.
func cleanLeftovers() error {
	all, err := lockWorlds()
	if err != nil {
		return err
	}
	defer all.Close()
	dirs, err := os.ReadDir(worldsDir)
	if err != nil {
		return err
	}
	var faults []error
	for _, d := range dirs {
		dir := filepath.Join(worldsDir, d.Name())
		lock, err := lockFolder(dir)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, os.ErrNotExist):
			continue // the run is alive or has just ended
		case err != nil:
			faults = append(faults, err)
			continue
		}
		faults = append(faults, cleanUp(dir))
		lock.Close()
	}
	return errors.Join(faults...)
}

// cleanUp removes everything of a run: processes, namespaces with their contents, disks, memory
// cgroups, and its folder.
func cleanUp(dir string) error {
	id := filepath.Base(dir)
	var faults []error
	names, err := filepath.Glob(filepath.Join(netnsDir, id+"-*"))
	faults = append(faults, err)
	disks, err := filepath.Glob(filepath.Join(dir, "disk*[0-9]"))
	faults = append(faults, err)
	for _, disk := range disks {
		_ = thawDisk(disk) // not mounted yet, or not frozen
	}
	for _, path := range names {
		faults = append(faults, endProcesses(filepath.Base(path)))
		faults = append(faults, runWithInput("", "ip", "netns", "delete", filepath.Base(path)))
	}
	for _, disk := range disks {
		err := unix.Unmount(disk, unix.MNT_DETACH)
		if err != nil && !errors.Is(err, unix.EINVAL) { // not mounted yet
			faults = append(faults, fmt.Errorf("unmount %s: %w", disk, err))
		}
	}
	faults = append(faults, removeGroups(dir), os.RemoveAll(dir))
	return errors.Join(faults...)
}

// endProcesses kills the processes in a namespace and waits until they have ended.
func endProcesses(namespace string) error {
	for end := time.Now().Add(endTimeout); ; time.Sleep(10 * time.Millisecond) {
		out, err := exec.Command("ip", "netns", "pids", namespace).Output()
		if err != nil {
			return fmt.Errorf("ip netns pids %s: %w", namespace, err)
		}
		pids := strings.Fields(string(out))
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("namespace %s: processes %v did not exit", namespace, pids)
		}
		for _, text := range pids {
			if pid, err := strconv.Atoi(text); err == nil {
				_ = unix.Kill(pid, unix.SIGKILL) // the process may have ended
			}
		}
	}
}
