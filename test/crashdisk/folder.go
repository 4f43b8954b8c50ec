// SPDX-License-Identifier: Apache-2.0

//go:build unix

package crashdisk

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/athena-go/athena/internal/store"
)

// folder is the directory as a process opened it.
type folder struct {
	disk   *Disk
	run    int
	locked bool
}

// Open implements store.Folder. The name "." stands for a file that is never read.
func (o *folder) Open(name string, flag int) (store.Handle, error) {
	op := Open
	if flag&os.O_CREATE != 0 {
		op = Create
	}
	fault := o.disk.beginOperation(o.run, op)
	defer o.disk.endOperation()
	f, known := o.disk.files[name]
	switch {
	case fault != nil:
		return nil, fault
	case op == Create && known:
		return nil, syscall.EEXIST
	case op == Create:
		f = &file{}
		o.disk.changeEntries(entryChange{name: f})
	case name == ".":
		f = &file{}
	case !known:
		return nil, syscall.ENOENT
	}
	return &handle{disk: o.disk, run: o.run, name: name, file: f}, nil
}

func (o *folder) Rename(from, to string) error {
	fault := o.disk.beginOperation(o.run, Rename)
	defer o.disk.endOperation()
	f := o.disk.files[from]
	if fault == nil && f == nil {
		fault = syscall.ENOENT
	}
	if fault == nil {
		o.disk.changeEntries(entryChange{from: nil, to: f})
	}
	return fault
}

func (o *folder) Remove(name string) error {
	fault := o.disk.beginOperation(o.run, Remove)
	defer o.disk.endOperation()
	if fault == nil {
		o.disk.changeEntries(entryChange{name: nil})
	}
	return fault
}

func (o *folder) IsSpecial(string) bool { return false }

func (o *folder) IsAt(name string, f store.Handle) bool {
	fault := o.disk.beginOperation(o.run, 0)
	defer o.disk.endOperation()
	return fault == nil && o.disk.files[name] == f.(*handle).file
}

func (o *folder) Stat() (fs.FileInfo, error) {
	fault := o.disk.beginOperation(o.run, 0)
	defer o.disk.endOperation()
	return info{name: ".", mode: fs.ModeDir | 0o700}, fault
}

func (o *folder) Sync() error {
	fault := o.disk.beginOperation(o.run, SyncDir)
	defer o.disk.endOperation()
	if errors.Is(fault, ErrDead) {
		return fault
	}
	return o.disk.syncEntries(fault)
}

func (o *folder) Chmod(fs.FileMode) error { return nil }

func (o *folder) ReadDir(int) ([]fs.DirEntry, error) {
	fault := o.disk.beginOperation(o.run, 0)
	defer o.disk.endOperation()
	var list []fs.DirEntry
	for _, name := range slices.Sorted(maps.Keys(o.disk.files)) {
		list = append(list, fs.FileInfoToDirEntry(info{name: name, mode: 0o600}))
	}
	return list, fault
}

func (o *folder) Lock() error { return o.disk.lockFile(o.run, nil, &o.locked) }

func (o *folder) Close() error { return o.disk.unlockFile(o.run, nil, &o.locked) }

// lockFile locks a file, or the directory.
func (d *Disk) lockFile(run int, f *file, locked *bool) error {
	fault := d.beginOperation(run, 0)
	defer d.endOperation()
	if fault == nil && d.locks[f] {
		fault = syscall.EWOULDBLOCK
	}
	if fault == nil {
		d.locks[f], *locked = true, true
	}
	return fault
}

func (d *Disk) unlockFile(run int, f *file, locked *bool) error {
	fault := d.beginOperation(run, 0)
	defer d.endOperation()
	if fault == nil && *locked {
		delete(d.locks, f)
	}
	*locked = false
	return fault
}

// handle is an open file of a process.
type handle struct {
	disk   *Disk
	run    int
	name   string
	file   *file
	at     int // of the next Read or Write
	locked bool
}

func (h *handle) Read(b []byte) (int, error) {
	fault := h.disk.beginOperation(h.run, 0)
	defer h.disk.endOperation()
	if fault == nil && h.at >= len(h.file.content) {
		fault = io.EOF
	}
	if fault != nil {
		return 0, fault
	}
	n := copy(b, h.file.content[h.at:])
	h.at += n
	return n, nil
}

func (h *handle) Write(b []byte) (int, error) {
	n, err := h.WriteAt(b, int64(h.at))
	h.at += n
	return n, err
}

func (h *handle) WriteAt(b []byte, at int64) (int, error) {
	fault := h.disk.beginOperation(h.run, Write)
	defer h.disk.endOperation()
	if errors.Is(fault, ErrDead) {
		return 0, fault
	}
	if fault != nil {
		b = b[:h.disk.rand.IntN(len(b)+1)]
	}
	h.file.addWrite(write{at: int(at), bytes: slices.Clone(b)})
	return len(b), fault
}

func (h *handle) Truncate(size int64) error {
	fault := h.disk.beginOperation(h.run, Write)
	defer h.disk.endOperation()
	if fault == nil {
		h.file.addWrite(write{at: int(size), truncates: true})
	}
	return fault
}

func (h *handle) Sync() error {
	fault := h.disk.beginOperation(h.run, Sync)
	defer h.disk.endOperation()
	if errors.Is(fault, ErrDead) {
		return fault
	}
	return h.disk.syncFile(h.file, fault)
}

func (h *handle) Stat() (fs.FileInfo, error) {
	fault := h.disk.beginOperation(h.run, 0)
	defer h.disk.endOperation()
	return info{name: h.name, size: len(h.file.content), mode: 0o600}, fault
}

func (h *handle) Chown(int, int) error { return nil }

func (h *handle) Lock() error { return h.disk.lockFile(h.run, h.file, &h.locked) }

func (h *handle) Close() error { return h.disk.unlockFile(h.run, h.file, &h.locked) }

// info describes a file, or the directory. All belong to the user of this process.
type info struct {
	name string
	size int
	mode fs.FileMode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(i.size) }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return &syscall.Stat_t{Nlink: 1, Uid: uint32(os.Geteuid())} }
