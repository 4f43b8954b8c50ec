// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// diskBytes is the size of the disk of each node.
	diskBytes = 512 << 10
	// freezeRequest and thawRequest are FIFREEZE and FITHAW of linux/fs.h.
	freezeRequest = 0xc0045877
	thawRequest   = 0xc0045878
)

// The kinds of faults of a disk that neither fails nor answers for the whole time, or for most of
// it.
const frozenDisk, slowDisk = "frozen disk", "slow disk"

// diskFolder returns the folder of a node's disk.
func (w *world) diskFolder(node int) string {
	return filepath.Join(w.dir, "disk"+strconv.Itoa(node+1))
}

// mountDisk mounts a file system: ext4, which can be frozen, or a tmpfs. It returns why it is not
// ext4.
func mountDisk(dir string) (why, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if why = mountImage(dir); why == nil {
		return nil, nil
	}
	options := "mode=700,size=" + strconv.Itoa(diskBytes)
	if err := unix.Mount("athena-chaos", dir, "tmpfs", 0, options); err != nil {
		return why, fmt.Errorf("mount a tmpfs at %s: %w", dir, err)
	}
	return why, nil
}

// mountImage mounts an ext4 file system in a file beside the folder, if it can be frozen.
func mountImage(dir string) error {
	image := dir + ".image"
	if err := os.WriteFile(image, make([]byte, diskBytes), 0o600); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-b", "1024", "-N", "32", "-m", "0", "-O", "^has_journal", image},
		{"mount", "-o", "loop", image, dir},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command[0], err, out)
		}
	}
	err := freezeDisk(dir)
	if err == nil {
		err = thawDisk(dir)
	}
	if err != nil {
		err = errors.Join(err, unix.Unmount(dir, 0))
	}
	return err
}

// freezeDisk lets no write to a file system end until it is thawed. It does nothing if the file
// system is frozen.
func freezeDisk(dir string) error { return requestOfDisk(dir, freezeRequest, unix.EBUSY) }

// thawDisk does nothing if the file system is not frozen.
func thawDisk(dir string) error { return requestOfDisk(dir, thawRequest, unix.EINVAL) }

func requestOfDisk(dir string, what uint, done error) error {
	root, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unix.IoctlSetInt(int(root.Fd()), what, 0); err != nil && !errors.Is(err, done) {
		return fmt.Errorf("freeze or thaw %s: %w", dir, err)
	}
	return nil
}

// thawNode thaws the disk of a node. A process that writes to a frozen disk waits, and cannot be
// killed.
func (w *world) thawNode(node int) error {
	if w.unfrozen != nil {
		return nil
	}
	return thawDisk(w.diskFolder(node))
}

// killNode kills the process of a node.
func (ps *processes) killNode(node int) error {
	err := ps.world.thawNode(ps.first + node)
	if err == nil {
		ps.nodes[node].kill()
	}
	return err
}

// stallDisk freezes the disk of a node, for the whole time or in pieces. No process has to end.
func (r *runner) stallDisk(f fault, node int) []action {
	if r.world.unfrozen != nil {
		return nil
	}
	dir := r.world.diskFolder(node)
	const piece, pause = 100 * time.Millisecond, 50 * time.Millisecond
	frozen := f.For
	if f.Kind == slowDisk {
		frozen = piece
	}
	var all []action
	for at := time.Duration(0); at < f.For; at += frozen + pause {
		all = append(all,
			action{at: at, do: func() error { return freezeDisk(dir) }},
			action{at: at + frozen, do: func() error { return r.world.thawNode(node) }})
	}
	return all
}

func (r *runner) ballastFile(node int) string {
	return filepath.Join(r.world.diskFolder(node), "ballast")
}

// fillDisk writes until the disk is full.
func (r *runner) fillDisk(node int) error {
	if err := r.world.thawNode(node); err != nil {
		return err
	}
	file, err := os.Create(r.ballastFile(node))
	if err != nil {
		return err
	}
	defer file.Close()
	for page := make([]byte, os.Getpagesize()); err == nil; {
		_, err = file.Write(page)
	}
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	return nil
}

func (r *runner) freeDisk(node int) error {
	if err := r.world.thawNode(node); err != nil {
		return err
	}
	if err := os.Remove(r.ballastFile(node)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil // another fault of this step has already freed the disk
}
