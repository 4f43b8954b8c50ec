// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A tape is evidence about millions of events: a file that a process has mapped
// into its memory, so that a mark costs a store there, and SIGKILL takes none of
// it. Its first page is a head of counters, the rest an array.
//
// A node has two for each other one and run of its own: what it sent to it, a
// uint32 an event by number, and what its handler got from it, a uint64 an event
// in the order of the handling.

// Ends of the names of tapes.
const (
	sentEnd  = ".sent"
	heardEnd = ".heard"
)

// tapeHeadBytes is the size of the head, a page.
const tapeHeadBytes = 4096

// tapeHead counts what the tape has. The runner reads it while the node writes.
type tapeHead struct {
	Used  uint64 // marks in the array
	Taken uint64 // by Send
	Done  uint64 // told nil
	Lost  uint64 // told an error
	Ended uint64 // 1 once the process was done in order
	Slept uint64 // times that the handler slept
}

// Marks of an event that is sent. Its outcomes are counted: nil, lost with the
// connection or the node, and any other error, which says that no handler ran.
const (
	markTried   = 1 << 0 // Send was called
	markTaken   = 1 << 1 // Send returned nil
	markRefused = 1 << 2 // Send returned an error

	toldDone    = 1 << 8
	toldUnknown = 1 << 16
	toldNotRun  = 1 << 24
)

// Marks of an event that a handler got: its number, the run of its sender, and
// what was odd.
const (
	heardSeqBits = 40
	heardRunBits = 16

	heardReturned = 1 << 61 // the handler is about to return
	heardBeside   = 1 << 62 // while it handled another one of the sender
	heardBad      = 1 << 63 // checksum or sender are wrong
)

func heardOf(run int, seq uint64) uint64 {
	return uint64(run)<<heardSeqBits | seq&(1<<heardSeqBits-1)
}

func heardParts(mark uint64) (run int, seq uint64) {
	return int(mark >> heardSeqBits & (1<<heardRunBits - 1)), mark & (1<<heardSeqBits - 1)
}

// tape is a mapped file with marks of type uint32 or uint64.
type tape[T uint32 | uint64] struct {
	head  *tapeHead
	marks []T
}

// tapePath names a tape: of a run of a node, about another node.
func tapePath(dir, node string, run int, other, end string) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d-%s%s", node, run, other, end))
}

// makeTape makes a tape with room for some marks. The file is sparse: it has no
// more than is used.
func makeTape[T uint32 | uint64](path string, room uint64) (*tape[T], error) {
	var t T
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size := tapeHeadBytes + int64(room)*int64(unsafe.Sizeof(t))
	if err := file.Truncate(size); err != nil {
		return nil, err
	}
	const access = unix.PROT_READ | unix.PROT_WRITE
	bytes, err := unix.Mmap(int(file.Fd()), 0, int(size), access, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return onTape[T](bytes), nil
}

// onTape looks at bytes as a tape. They begin at a page, and so does the array.
func onTape[T uint32 | uint64](bytes []byte) *tape[T] {
	var t T
	all := unsafe.Slice((*T)(unsafe.Pointer(&bytes[0])), len(bytes)/int(unsafe.Sizeof(t)))
	return &tape[T]{
		head:  (*tapeHead)(unsafe.Pointer(&bytes[0])),
		marks: all[tapeHeadBytes/unsafe.Sizeof(t):],
	}
}

// readHead reads the head of a tape that is in use.
func readHead(path string) (tapeHead, error) {
	var page [unsafe.Sizeof(tapeHead{}) / 8]uint64
	file, err := os.Open(path)
	if err != nil {
		return tapeHead{}, err
	}
	defer file.Close()
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&page[0])), unsafe.Sizeof(page))
	if _, err := file.ReadAt(bytes, 0); err != nil {
		return tapeHead{}, fmt.Errorf("read %s: %w", path, err)
	}
	return *(*tapeHead)(unsafe.Pointer(&page[0])), nil
}

// readTape maps a tape that nobody writes any more, cut to what is used. done
// gives it back.
func readTape[T uint32 | uint64](path string) (t *tape[T], done func(), err error) {
	var mark T
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() < tapeHeadBytes {
		return nil, nil, fmt.Errorf("%s: not evidence: %d bytes", path, info.Size())
	}
	bytes, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	done = func() { _ = unix.Munmap(bytes) } // it was mapped
	t = onTape[T](bytes)
	if t.head.Used > uint64(len(t.marks)) {
		err := fmt.Errorf("%s: not evidence: %d marks of %d bytes in a file of %d",
			path, t.head.Used, unsafe.Sizeof(mark), info.Size())
		done()
		return nil, nil, err
	}
	t.marks = t.marks[:t.head.Used]
	return t, done, nil
}

// cutTapes shortens all tapes of a folder to what was used.
func cutTapes(dir string) error {
	var faults []error
	for end, size := range map[string]int64{sentEnd: 4, heardEnd: 8} {
		paths, err := filepath.Glob(filepath.Join(dir, "*"+end))
		faults = append(faults, err)
		for _, path := range paths {
			head, err := readHead(path)
			if err == nil {
				err = os.Truncate(path, tapeHeadBytes+int64(head.Used)*size)
			}
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// noteTry notes the number of an event before it is sent; false without room.
func noteTry(t *tape[uint32], seq uint64) bool {
	if seq > uint64(len(t.marks)) {
		return false
	}
	atomic.StoreUint64(&t.head.Used, seq)
	atomic.AddUint32(&t.marks[seq-1], markTried)
	return true
}

// noteSent notes what Send said.
func noteSent(t *tape[uint32], seq uint64, err error) {
	if err != nil {
		atomic.AddUint32(&t.marks[seq-1], markRefused)
		return
	}
	atomic.AddUint32(&t.marks[seq-1], markTaken)
	atomic.AddUint64(&t.head.Taken, 1)
}

// noteTold notes an outcome.
func noteTold(t *tape[uint32], seq uint64, outcome uint32) {
	atomic.AddUint32(&t.marks[seq-1], outcome)
	if outcome == toldDone {
		atomic.AddUint64(&t.head.Done, 1)
		return
	}
	atomic.AddUint64(&t.head.Lost, 1)
}

// noteHeard notes that a handler has an event, and returns where; nil without room.
func noteHeard(t *tape[uint64], mark uint64) *uint64 {
	at := atomic.AddUint64(&t.head.Used, 1)
	if at > uint64(len(t.marks)) {
		return nil
	}
	atomic.StoreUint64(&t.marks[at-1], mark)
	return &t.marks[at-1]
}
