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

// A recording has marks for millions of events. It is a file that is mapped into memory, so that a
// mark costs one store and survives SIGKILL. Its first page contains counters, the rest is an array
// of marks.
//
// Each run of a node has two recordings for each other node. One contains a uint32 for each event
// that it sent, by number. The other contains a uint64 for each event that its handler received, in
// the order of handling.

// File name extensions of recordings.
const (
	sentEnd  = ".sent"
	heardEnd = ".heard"
)

// headBytes is the size of the head, one page.
const headBytes = 4096

// recordingHead holds the counters of a recording. The runner reads it while the node writes.
type recordingHead struct {
	Used     uint64 // number of marks
	Accepted uint64 // events accepted by Send
	Done     uint64 // events with the outcome nil
	Lost     uint64 // events with an error as the outcome
	Ended    uint64 // 1 after the process has ended gracefully
	Slept    uint64 // number of times that the handler slept
}

// These are the marks of a sent event. Outcomes are counted by kind: nil, unknown (the connection
// or the node was lost), and any other error (no handler ran).
const (
	markTried    = 1 << 0 // Send was called
	markAccepted = 1 << 1 // Send returned nil
	markRefused  = 1 << 2 // Send returned an error

	outcomeDone    = 1 << 8
	outcomeUnknown = 1 << 16
	outcomeNotRun  = 1 << 24
)

// The mark of a handled event combines its number, the run of its sender, and anomalies.
const (
	heardSeqBits = 40
	heardRunBits = 16

	heardReturned = 1 << 61 // the handler is about to return
	heardBeside   = 1 << 62 // the handler was running for another event of this sender
	heardBad      = 1 << 63 // the checksum or the sender is wrong
)

func heardOf(run int, seq uint64) uint64 {
	return uint64(run)<<heardSeqBits | seq&(1<<heardSeqBits-1)
}

func heardParts(mark uint64) (run int, seq uint64) {
	return int(mark >> heardSeqBits & (1<<heardRunBits - 1)), mark & (1<<heardSeqBits - 1)
}

// recording is a mapped file with marks.
type recording[T uint32 | uint64] struct {
	head  *recordingHead
	marks []T
}

// recordingPath returns the path of the recording that a run of a node makes about another node.
func recordingPath(dir, node string, run int, other, end string) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d-%s%s", node, run, other, end))
}

// createRecording creates a recording with room for a number of marks. The file is sparse.
func createRecording[T uint32 | uint64](path string, room uint64) (*recording[T], error) {
	var t T
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size := headBytes + int64(room)*int64(unsafe.Sizeof(t))
	if err := file.Truncate(size); err != nil {
		return nil, err
	}
	const access = unix.PROT_READ | unix.PROT_WRITE
	bytes, err := unix.Mmap(int(file.Fd()), 0, int(size), access, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return asRecording[T](bytes), nil
}

// asRecording interprets bytes that begin at a page boundary as a recording.
func asRecording[T uint32 | uint64](bytes []byte) *recording[T] {
	var t T
	all := unsafe.Slice((*T)(unsafe.Pointer(&bytes[0])), len(bytes)/int(unsafe.Sizeof(t)))
	return &recording[T]{
		head:  (*recordingHead)(unsafe.Pointer(&bytes[0])),
		marks: all[headBytes/unsafe.Sizeof(t):],
	}
}

// readHead reads the head of a recording that is in use.
func readHead(path string) (recordingHead, error) {
	var page [unsafe.Sizeof(recordingHead{}) / 8]uint64
	file, err := os.Open(path)
	if err != nil {
		return recordingHead{}, err
	}
	defer file.Close()
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&page[0])), unsafe.Sizeof(page))
	if _, err := file.ReadAt(bytes, 0); err != nil {
		return recordingHead{}, fmt.Errorf("read %s: %w", path, err)
	}
	return *(*recordingHead)(unsafe.Pointer(&page[0])), nil
}

// openRecording maps the used part of a recording that is no longer written, until done is called.
func openRecording[T uint32 | uint64](path string) (t *recording[T], done func(), err error) {
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
	if info.Size() < headBytes {
		return nil, nil, fmt.Errorf("%s: not evidence: %d bytes", path, info.Size())
	}
	bytes, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	done = func() { _ = unix.Munmap(bytes) } // cannot fail, since it is mapped
	t = asRecording[T](bytes)
	if t.head.Used > uint64(len(t.marks)) {
		err := fmt.Errorf("%s: not evidence: %d marks of %d bytes in a file of %d",
			path, t.head.Used, unsafe.Sizeof(mark), info.Size())
		done()
		return nil, nil, err
	}
	t.marks = t.marks[:t.head.Used]
	return t, done, nil
}

// truncateRecordings truncates all recordings in a folder to their used part.
func truncateRecordings(dir string) error {
	var faults []error
	for end, size := range map[string]int64{sentEnd: 4, heardEnd: 8} {
		paths, err := filepath.Glob(filepath.Join(dir, "*"+end))
		faults = append(faults, err)
		for _, path := range paths {
			head, err := readHead(path)
			if err == nil {
				err = os.Truncate(path, headBytes+int64(head.Used)*size)
			}
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// noteTry records an event before it is sent. It returns false if the recording is full.
func noteTry(t *recording[uint32], seq uint64) bool {
	if seq > uint64(len(t.marks)) {
		return false
	}
	atomic.StoreUint64(&t.head.Used, seq)
	atomic.AddUint32(&t.marks[seq-1], markTried)
	return true
}

// noteSent records the result of Send.
func noteSent(t *recording[uint32], seq uint64, err error) {
	if err != nil {
		atomic.AddUint32(&t.marks[seq-1], markRefused)
		return
	}
	atomic.AddUint32(&t.marks[seq-1], markAccepted)
	atomic.AddUint64(&t.head.Accepted, 1)
}

// noteOutcome records an outcome.
func noteOutcome(t *recording[uint32], seq uint64, outcome uint32) {
	atomic.AddUint32(&t.marks[seq-1], outcome)
	if outcome == outcomeDone {
		atomic.AddUint64(&t.head.Done, 1)
		return
	}
	atomic.AddUint64(&t.head.Lost, 1)
}

// noteHeard records a handled event and returns its mark, or nil if the recording is full.
func noteHeard(t *recording[uint64], mark uint64) *uint64 {
	at := atomic.AddUint64(&t.head.Used, 1)
	if at > uint64(len(t.marks)) {
		return nil
	}
	atomic.StoreUint64(&t.marks[at-1], mark)
	return &t.marks[at-1]
}
