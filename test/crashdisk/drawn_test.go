// SPDX-License-Identifier: Apache-2.0

//go:build unix

package crashdisk

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

var (
	seed = flag.Uint64("seed", 1, "first seed of TestDrawn")
	runs = flag.Uint64("runs", 2000, "number of runs of TestDrawn")
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(1000) // the disks are small, but there are many
	os.Exit(m.Run())
}

// TestDrawn runs processes that open a store and save on a disk that fails and crashes. The store
// always holds the last content for which Save returned nil, or one that was passed to Save since.
func TestDrawn(t *testing.T) {
	var total world
	last := *seed + *runs
	if testing.Short() {
		last = *seed + *runs/8
	}
	for n := *seed; n < last; n++ {
		w := newWorld(n)
		for range 2 + w.rand.IntN(6) {
			w.crashIn, w.faults = w.rand.IntN(80), []int{0, 0, 20, 100}[w.rand.IntN(4)]
			if err := w.runProcess(); err != nil {
				t.Fatalf("seed %d: %v", n, err)
			}
		}
		total.addCounts(w)
	}
	t.Logf("%d saves, %d failed; %d loads, %d of an unfinished save, %d of a torn sector; %d crashes",
		total.saves, total.failed, total.loads, total.newer, total.torn, total.crashes)
	if last-*seed >= 1000 {
		total.requireAll(t)
	}
}

// TestCrashAtEveryPoint crashes a machine before each operation of one process, with several draws
// of what is lost, and loads what is left.
func TestCrashAtEveryPoint(t *testing.T) {
	for crash := 1; ; crash++ {
		reached := false
		draws := uint64(20)
		if testing.Short() {
			draws = 4
		}
		for n := range draws {
			w := newWorld(n)
			w.mustRun(t, 0, n)
			w.mustRun(t, crash, n)
			reached = reached || w.crashIn <= 0
			w.mustRun(t, 0, n)
		}
		if !reached {
			t.Logf("%d points", crash-1)
			return
		}
	}
}

// world is a disk with the processes that use it, one after the other.
type world struct {
	rand *rand.Rand
	disk *Disk
	// may lists what the store may hold: the content saved last, or nil, and those passed to Save
	// since.
	may  []*store.Content
	next store.Content // based on the content that the process knows
	key  *[32]byte     // nil if none was returned
	// keyFailed is set once a key could not be saved.
	keyFailed bool
	// crashIn is the number of operations until the machine crashes, if positive. faults is the
	// number of operations in 1,000 that fail.
	crashIn, faults int
	crashed         bool // since the last Load

	saves, failed, loads, newer, torn, crashes int
}

func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 0))
	w := &world{rand: r, disk: New(r), may: []*store.Content{nil}}
	w.disk.Torn = r.IntN(2) == 0
	w.disk.Before = w.injectFault
	return w
}

// injectFault crashes the machine or fails an operation.
func (w *world) injectFault(op Op) error {
	if w.crashIn--; w.crashIn == 0 {
		w.crashMachine()
		return nil
	}
	switch {
	case w.rand.IntN(1000) >= w.faults:
		return nil
	case op == Create || op == Write || w.rand.IntN(2) == 0:
		return syscall.ENOSPC
	}
	return syscall.EIO
}

func (w *world) crashMachine() {
	w.disk.Crash()
	w.crashed = true
	w.crashes++
}

func (w *world) mustRun(t *testing.T, crashIn int, seed uint64) {
	t.Helper()
	w.crashIn = crashIn
	if err := w.runProcess(); err != nil {
		t.Fatalf("crash before operation %d, draw %d: %v", crashIn, seed, err)
	}
}

// isExpected reports whether an error is a fault of the disk.
func isExpected(err error) bool {
	return errors.Is(err, ErrDead) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC)
}

// runProcess opens the store, saves several times and ends.
func (w *world) runProcess() error {
	s, err := store.OpenFolder("disk", w.disk.Folder())
	if err != nil {
		return unexpectedError("OpenFolder", err)
	}
	defer s.Close()
	if err := w.checkLoad(s); err != nil {
		return unexpectedError("Load", err)
	}
	for i := range 1 + w.rand.IntN(12) {
		err := w.checkSave(s)
		switch {
		case err == nil:
		case !isExpected(err), errors.Is(err, ErrDead), w.rand.IntN(2) == 0: // a node stops
			return unexpectedError("Save", err)
		}
		if i > 0 { // a node saves before it reads its key
			continue
		}
		if err := w.resetKey(s); err != nil {
			return unexpectedError("ResetKey", err)
		}
	}
	switch w.rand.IntN(3) {
	case 0:
		w.crashMachine()
	case 1:
		w.disk.Kill()
	default:
		return unexpectedError("Close", s.Close())
	}
	return nil
}

func unexpectedError(call string, err error) error {
	if err == nil || isExpected(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", call, err)
}

// checkLoad checks that the store holds one of the allowed contents.
func (w *world) checkLoad(s *store.File) error {
	c, known, err := s.Load()
	if errors.Is(err, store.ErrCorrupt) && w.disk.Torn && len(w.may) > 1 {
		// A sector written in part is not told from damage. The node does not start, and the
		// operator removes the store.
		w.torn++
		w.disk.files, w.disk.stored, w.disk.entries = map[string]*file{}, map[string]*file{}, nil
		w.disk.Kill()
		w.may, w.key = []*store.Content{nil}, nil
		return ErrDead
	}
	if err != nil {
		return err
	}
	w.loads++
	var got *store.Content
	if known {
		got = &c
	}
	for i, m := range w.may {
		if (m == nil) != (got == nil) || m != nil && !cmp.Equal(*m, c) {
			continue
		}
		if i > 0 {
			w.newer++
		}
		if w.crashed { // what was read is on the disk
			w.may, w.crashed = []*store.Content{got}, false
		}
		w.next = c
		return nil
	}
	return fmt.Errorf("it holds run %d, known: %v, but may hold only one of %d other contents; "+
		"the last saved was %v", c.Incarnation, known, len(w.may), w.may[0])
}

// checkSave saves another content.
func (w *world) checkSave(s *store.File) error {
	w.drawContent()
	c := w.next
	err := s.Save(c)
	if w.saves++; err == nil {
		w.may = []*store.Content{&c}
		return nil
	}
	w.failed++
	w.may = append(w.may, &c)
	return err
}

// resetKey checks that a key stays the same once it was returned without an error. After an error
// the next process may read a key that a crash loses. It only resets connections sooner.
func (w *world) resetKey(s *store.File) error {
	key, err := s.ResetKey()
	switch {
	case err != nil:
		w.key, w.keyFailed = nil, true
	case w.keyFailed:
	case w.key == nil:
		w.key = &key
	case *w.key != key:
		return fmt.Errorf("another key, although the first one was saved")
	}
	return err
}

// drawContent changes w.next to another content. The size is random: some entries fit in two
// sectors, and some leave no room in the file for another entry.
func (w *world) drawContent() {
	address := func(n uint16) member.Address { return member.Address{Host: "10.0.0.1", Port: n} }
	w.next.Origin = store.Origin{Cluster: "c", Size: 3, Address: address(1)}
	w.next.LeaseTimeout = time.Second
	if w.next.StoreID.IsZero() || w.rand.IntN(10) == 0 { // athena recover makes another key
		w.next.Key = storekey.Key{byte(w.rand.IntN(256)), byte(w.rand.IntN(256))}
		w.next.StoreID = w.next.Key.StoreID()
	}
	w.next.Incarnation++
	n := w.next.Incarnation*1000 + uint64(w.rand.IntN(1000))
	w.next.Promised = paxos.ID{Version: n, Ballot: paxos.Ballot{Round: n, Proposer: address(2)}}
	w.next.Held.Number = member.Number{Version: n, Revision: n}
	w.next.Held.Cluster = member.ClusterID{1}
	w.next.Held.Leader = address(2)
	records := w.next.Held.Records
	for range w.rand.IntN(4) * w.rand.IntN(12) {
		key := fmt.Sprint("k", w.rand.IntN(60))
		if w.rand.IntN(3) == 0 {
			records = records.Drop(key)
			continue
		}
		value := make([]byte, 1+w.rand.IntN(500))
		for i := range value {
			value[i] = byte(n)
		}
		token := member.Token{Version: n}
		records = records.Put(member.Record{Key: key, Value: value, Token: token})
	}
	w.next.Held.Records = records
}

func (w *world) addCounts(o *world) {
	w.saves, w.failed, w.loads = w.saves+o.saves, w.failed+o.failed, w.loads+o.loads
	w.newer, w.torn, w.crashes = w.newer+o.newer, w.torn+o.torn, w.crashes+o.crashes
}

// requireAll checks that each case was drawn.
func (w *world) requireAll(t *testing.T) {
	t.Helper()
	for _, n := range []int{w.saves - w.failed, w.failed, w.loads, w.newer, w.torn, w.crashes} {
		if n == 0 {
			t.Error("a case was never drawn")
		}
	}
}
