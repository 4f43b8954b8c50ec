// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
)

// Fault is a fault that occurs at a given time, with its drawn parameters. The meaning of Who and
// Args depends on its class.
type Fault struct {
	At    int64 // global time in nanoseconds
	Class Faults
	Who   int
	Lasts int64 // nanoseconds
	Args  []int64
}

// longest is the maximum of the times of a fault that is read from a file. It prevents sums from
// overflowing. shortest is the minimum period of a repeated fault, so that a run makes progress.
const (
	longest  = int64(100 * MaxFor)
	shortest = int64(message.MinInterval)
)

// Fate describes the delivery of a message. Without a recorded fate, a message arrives once, after
// the Delay of its link.
type Fate struct {
	Link, Nth    int // the message's number on this link, from 1
	Lost, Twice  bool
	Extra, Again int64 // microseconds beyond Delay, of the message and of its duplicate
}

func (f Fate) isPlain() bool { return !f.Lost && !f.Twice && f.Extra == 0 }

// limitTo limits a fate to the possible fates on a calm link. After a run was shrunk, the fate may
// belong to another message, which is sent after the faults have ended.
func (f Fate) limitTo(l Link) Fate {
	const most = 40 // multiple of the mean that no draw reaches
	f.Lost, f.Twice, f.Again = false, false, 0
	f.Extra = min(f.Extra, most*int64(l.Jitter/time.Microsecond))
	return f
}

// recording contains the random decisions of one run. The run either writes its decisions to the
// recording or reads them from it.
type recording struct {
	writing   bool // record
	replaying bool
	faults    []Fault
	fates     []Fate
	known     map[[2]int]Fate // fates to read, by link and number
}

// newReplayRecording returns a recording for a replay.
func newReplayRecording(faults []Fault, fates []Fate) *recording {
	t := &recording{replaying: true, faults: faults, known: make(map[[2]int]Fate, len(fates))}
	for _, f := range fates {
		t.known[[2]int{f.Link, f.Nth}] = f
	}
	return t
}

func (t *recording) isReplay() bool { return t.replaying }

func (t *recording) recordedFate(link, nth int) Fate { return t.known[[2]int{link, nth}] }

func (t *recording) recordFate(f Fate) {
	if t.writing && !f.isPlain() {
		t.fates = append(t.fates, f)
	}
}

func (t *recording) recordFault(f Fault) {
	if t.writing {
		t.faults = append(t.faults, f)
	}
}

// MarshalJSON writes a fault as a list of numbers.
func (f Fault) MarshalJSON() ([]byte, error) {
	head := []int64{f.At, int64(f.Class.bitIndex()), int64(f.Who), f.Lasts}
	return json.Marshal(append(head, f.Args...))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Fault) UnmarshalJSON(b []byte) error {
	var n []int64
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	if len(n) < 4 || slices.Min(n[:4]) < 0 || n[1] >= classes || n[2] >= MaxProcesses {
		return fmt.Errorf("invalid fault %s: want [time, class, process, duration, ...]", b)
	}
	if slices.Max(n) > longest || slices.Min(n) < -longest {
		return fmt.Errorf("fault longer than %v: %s", time.Duration(longest), b)
	}
	*f = Fault{At: n[0], Class: 1 << n[1], Who: int(n[2]), Lasts: n[3], Args: n[4:]}
	return nil
}

// MarshalJSON writes a fate as a list of numbers.
func (f Fate) MarshalJSON() ([]byte, error) {
	n := []int64{int64(f.Link), int64(f.Nth), f.Extra}
	switch {
	case f.Lost:
		n = append(n[:2], -1)
	case f.Twice:
		n = append(n, f.Again)
	}
	return json.Marshal(n)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Fate) UnmarshalJSON(b []byte) error {
	var n []int64
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	if len(n) < 3 || len(n) > 4 || n[2] < -1 || len(n) == 4 && (n[2] < 0 || n[3] < 0) {
		return fmt.Errorf("invalid fate %s: want [link, number, delay or -1, delay of the duplicate]", b)
	}
	*f = Fate{Link: int(n[0]), Nth: int(n[1]), Lost: n[2] < 0, Extra: max(n[2], 0), Twice: len(n) == 4}
	if f.Twice {
		f.Again = n[3]
	}
	return nil
}
