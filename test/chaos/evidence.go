// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/test/workload"
)

// The kinds of evidence.
const (
	kindStart  = "start"  // a process started: Run, Size, Daemon
	kindHold   = "hold"   // this node had authority from Begin to End
	kindView   = "view"   // what this node saw
	kindEvents = "events" // events First to Last from FromRun of From were handled in this order
	kindSent   = "sent"   // Send of events First to Last to To returned no error
	kindForged = "forged" // an event names another node as its sender
	kindEnd    = "end"    // the node stopped, with the cause
	kindWrite  = "write"  // the register's decision about a write
	kindStall  = "stall"  // this process was not running from Begin to End
	kindOp     = "op"     // a line of an operation on a record or a lock, which test/linear judges
	kindLost   = "lost"   // the runner erased the store of To
	kindClaim  = "claim"  // the runner started From, a Cause that claims the address of To
	kindSpoke  = "spoke"  // nodes answered First dials of an intruder, which sent Last messages
)

// evidence is one line that a process records. Times are nanoseconds of CLOCK_MONOTONIC.
type evidence struct {
	Kind string
	Node string `json:",omitempty"`
	// Run identifies the process by its start time.
	Run   int64  `json:",omitempty"`
	At    int64  `json:",omitempty"`
	Cause string `json:",omitempty"`
	Size  int    `json:",omitempty"` // size of the cluster
	// Daemon means that the process is a daemon, for which only authority is recorded.
	Daemon bool `json:",omitempty"`

	// Key names the lock, job or shard that a hold or a write is about; empty for the leader of the
	// cluster.
	Key   string `json:",omitempty"`
	Token uint64 `json:",omitempty"`
	// Authority was seen at or before Begin and again at or after End. Authority does not return
	// within a term, so it lasted from Begin to End. If authority was seen only once, End is before
	// Begin, and it was seen between these two times.
	Begin int64 `json:",omitempty"`
	End   int64 `json:",omitempty"`

	View *nodeView `json:",omitempty"`

	From    string `json:",omitempty"`
	FromRun int64  `json:",omitempty"`
	To      string `json:",omitempty"`
	First   uint64 `json:",omitempty"`
	Last    uint64 `json:",omitempty"`

	// Seq numbers the writes of a run of a node across all its terms.
	Seq     uint64 `json:",omitempty"`
	Verdict string `json:",omitempty"`

	Op *workload.Operation `json:",omitempty"`
}

// nodeView is a node's view of the cluster, with the names of the nodes.
type nodeView struct {
	StoreID  string // store id of the node itself
	Cluster  string `json:",omitempty"` // cluster id of the state that the node holds
	Version  uint64
	Revision uint64
	Role     string
	Leader   string // empty if there is none
	Quorate  bool
	Members  []seat
}

// seat is one member of a view.
type seat struct {
	Name        string
	StoreID     string
	Incarnation uint64
	Status      string
	Voter       bool
}

// evidenceFile is an append-only file of evidence, written by one process.
type evidenceFile struct {
	node string
	run  int64

	mu   sync.Mutex
	file *os.File
}

// openEvidence opens a file of evidence for appending. It first ends the truncated line of an
// earlier process, if there is one. Then it appends the start record, whose Node names the process.
func openEvidence(path string, start evidence) (*evidenceFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	b := &evidenceFile{node: start.Node, run: readMonotonic(), file: file}
	if _, err := file.WriteString("\n"); err != nil {
		return nil, err
	}
	start.Kind = kindStart
	b.appendLine(start)
	return b, nil
}

// appendLine appends a line in one write. If it fails, the process exits, because a run without
// evidence proves nothing.
func (b *evidenceFile) appendLine(e evidence) {
	e.Node, e.Run, e.At = b.node, b.run, readMonotonic()
	text, err := json.Marshal(e)
	if err == nil {
		b.mu.Lock()
		_, err = b.file.Write(append(text, '\n'))
		b.mu.Unlock()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: evidence:", err)
		os.Exit(exitEvidence)
	}
}

// readMonotonic reads the clock that all processes on the machine share, without the offset of this
// process.
func readMonotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("chaos: no monotonic clock: %v", err)) // Linux always has this clock
	}
	ahead, _ := strconv.ParseInt(os.Getenv(clockVariable), 10, 64) // 0 if the clock is not shifted
	return t.Nano() - ahead*int64(time.Second)
}

// spanLog records the events that were sent or received, in order. Consecutive numbers share a
// line.
type spanLog struct {
	evidence *evidenceFile

	mu   sync.Mutex
	open map[string]*evidence // indexed by the other node
}

// addEvent adds one event.
func (t *spanLog) addEvent(other string, e evidence) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[string]*evidence{}
	}
	line := t.open[other]
	if line != nil && line.FromRun == e.FromRun && line.Last+1 == e.First {
		line.Last = e.Last
		return
	}
	if line != nil {
		t.evidence.appendLine(*line)
	}
	t.open[other] = &e
}

func (t *spanLog) flushSpans() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for other, line := range t.open {
		t.evidence.appendLine(*line)
		delete(t.open, other)
	}
}
