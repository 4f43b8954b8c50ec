// SPDX-License-Identifier: Apache-2.0

//go:build unix

package crashdisk

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/athena-go/athena/internal/store"
)

// sectorBytes is the size that the disk writes atomically, except with Torn.
const sectorBytes = 512

// Op is a kind of operation.
type Op uint8

// The operations for which Before is called.
const (
	Open Op = iota + 1 // an existing file
	Create
	Rename
	Remove
	Write
	Sync    // a file
	SyncDir // the directory
)

// Disk is a directory in memory. Its methods may be called concurrently.
type Disk struct {
	// Before is called before each operation, and may be nil. If it returns an error, the operation
	// fails with it: a write writes a part, and a sync loses a part.
	Before func(Op) error
	// Torn lets a crash write a sector in part.
	Torn bool

	mu      sync.Mutex
	rand    *rand.Rand
	run     int              // number of crashes and kills so far
	locks   map[*file]bool   // nil is the directory
	files   map[string]*file // what processes see
	stored  map[string]*file // what survives a crash
	entries []entryChange    // not synced, oldest first
}

// file has the bytes that processes read and those that survive a crash.
type file struct {
	content, stored []byte
	writes          []write // not synced, oldest first
}

// write replaces the bytes at an offset. If it truncates, the file ends there.
type write struct {
	at        int
	bytes     []byte
	truncates bool
}

// entryChange is an atomic change of the directory: files by name, or nil for a removed name.
type entryChange map[string]*file

// ErrDead is returned to a process that has ended.
var ErrDead = errors.New("crashdisk: the process has ended")

// New returns an empty disk. What a crash or a failed sync loses is drawn from the given source.
func New(random *rand.Rand) *Disk {
	return &Disk{
		rand: random, locks: map[*file]bool{}, files: map[string]*file{}, stored: map[string]*file{},
	}
}

// Folder returns the directory as opened by a process that starts now.
func (d *Disk) Folder() store.Folder {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &folder{disk: d, run: d.run}
}

// Kill ends all processes that use the disk.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.run++
	clear(d.locks)
}

// Crash ends all processes and loses any part of what was not synced.
func (d *Disk) Crash() {
	d.Kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if d.isLucky() {
			e.applyTo(d.stored)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.stored)) {
		f := d.stored[name]
		for _, w := range f.writes {
			d.storePart(f, w)
		}
		f.writes, f.content = nil, slices.Clone(f.stored)
	}
	d.entries, d.files = nil, maps.Clone(d.stored)
}

// CopyFrom adds the files of another disk as processes see them.
func (d *Disk) CopyFrom(from *Disk) {
	from.mu.Lock()
	defer from.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, f := range from.files {
		c := &file{content: slices.Clone(f.content), stored: slices.Clone(f.content)}
		d.files[name], d.stored[name] = c, c
	}
}

// isLucky draws whether something that was not synced reaches the disk.
func (d *Disk) isLucky() bool { return d.rand.IntN(2) == 0 }

// storePart stores any part of a write. Every other one is stored as a whole or not at all.
func (d *Disk) storePart(f *file, w write) {
	if w.truncates || d.isLucky() {
		if d.isLucky() {
			f.stored = w.applyTo(f.stored)
		}
		return
	}
	often := 1 + d.rand.IntN(8) // of 8 sectors
	for at, rest := w.at, w.bytes; len(rest) > 0; {
		n := min(sectorBytes-at%sectorBytes, len(rest))
		part := rest[:n]
		if d.Torn && d.isLucky() {
			part = part[:d.rand.IntN(n)]
		}
		if d.rand.IntN(8) < often {
			f.stored = write{at: at, bytes: part}.applyTo(f.stored)
		}
		at, rest = at+n, rest[n:]
	}
}

// addWrite changes the content of a file. The change is lost in a crash unless the file is synced.
func (f *file) addWrite(w write) {
	f.content = w.applyTo(f.content)
	f.writes = append(f.writes, w)
}

// applyTo returns the content after a write. Bytes that were never written are zero.
func (w write) applyTo(content []byte) []byte {
	if w.truncates {
		content = content[:min(w.at, len(content))]
	}
	if missing := w.at + len(w.bytes) - len(content); missing > 0 {
		content = append(content, make([]byte, missing)...)
	}
	copy(content[w.at:], w.bytes)
	return content
}

func (e entryChange) applyTo(names map[string]*file) {
	for name, f := range e {
		if f == nil {
			delete(names, name)
		} else {
			names[name] = f
		}
	}
}

// syncFile makes what was written durable. A failed sync stores a part, leaves a part to later
// syncs, and loses the rest.
func (d *Disk) syncFile(f *file, fault error) error {
	var later []write
	for _, w := range f.writes {
		switch {
		case fault == nil:
			f.stored = w.applyTo(f.stored)
		case d.isLucky():
			d.storePart(f, w)
		case d.isLucky():
			later = append(later, w)
		}
	}
	f.writes = later
	return fault
}

// syncEntries is syncFile for the directory.
func (d *Disk) syncEntries(fault error) error {
	var later []entryChange
	for _, e := range d.entries {
		switch {
		case fault == nil || d.isLucky():
			e.applyTo(d.stored)
		case d.isLucky():
			later = append(later, e)
		}
	}
	d.entries = later
	return fault
}

// changeEntries changes the directory. A crash loses the change unless the directory is synced.
func (d *Disk) changeEntries(e entryChange) {
	e.applyTo(d.files)
	d.entries = append(d.entries, e)
}

// beginOperation begins an operation of a process, and returns its fault. endOperation must follow.
func (d *Disk) beginOperation(run int, op Op) error {
	var fault error
	if op != 0 && d.Before != nil {
		fault = d.Before(op)
	}
	d.mu.Lock()
	if run != d.run {
		return ErrDead
	}
	return fault
}

func (d *Disk) endOperation() { d.mu.Unlock() }
