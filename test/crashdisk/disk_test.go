// SPDX-License-Identifier: Apache-2.0

//go:build unix

package crashdisk

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
)

// Save must not return before its sync does, however long that takes.
func TestStalledSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = time.Hour
		w := newWorld(1)
		s, err := store.OpenFolder("disk", w.disk.Folder())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.checkLoad(s); err != nil {
			t.Fatal(err)
		}
		syncs := 0
		w.disk.Before = func(op Op) error {
			if op == Sync || op == SyncDir {
				syncs++
				time.Sleep(stall)
			}
			return nil
		}
		for _, want := range []int{2, 1} { // of a new file and its directory, then of an entry
			began := time.Now()
			if err := w.checkSave(s); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); syncs != want || took != time.Duration(want)*stall {
				t.Errorf("Save returned after %v and %d syncs, want %d", took, syncs, want)
			}
			syncs = 0
		}
		time.AfterFunc(stall/2, w.crashMachine)
		if err := w.checkSave(s); !errors.Is(err, ErrDead) {
			t.Errorf("Save after a crash during its sync: got %v, want ErrDead", err)
		}
		synctest.Wait() // crashMachine runs in a goroutine of its own
		w.disk.Before = nil
		if err := w.runProcess(); err != nil {
			t.Error(err)
		}
	})
}

// TestProbe checks that a probe reaches the disk and reports its errors, that a save does not wait
// for one that is stalled, and that the process id stays in the lock file.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		s, err := store.OpenFolder("disk", w.disk.Folder())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.checkLoad(s); err != nil {
			t.Fatal(err)
		}
		var ops []Op
		w.disk.Before = func(op Op) error {
			ops = append(ops, op)
			if op == Write && len(ops) == 1 {
				time.Sleep(time.Hour)
			}
			return nil
		}
		began, done := time.Now(), make(chan error)
		go func() { done <- s.Probe() }()
		synctest.Wait()
		if err := w.checkSave(s); err != nil || time.Since(began) != 0 {
			t.Errorf("Save during a stalled probe: %v after %v", err, time.Since(began))
		}
		if err := <-done; err != nil || time.Since(began) != time.Hour || ops[len(ops)-1] != Sync {
			t.Errorf("Probe: %v after %v, operations %v", err, time.Since(began), ops)
		}
		for _, fails := range []Op{Write, Sync} {
			w.disk.Before = func(op Op) error {
				if op == fails {
					return syscall.EIO
				}
				return nil
			}
			if err := s.Probe(); !errors.Is(err, syscall.EIO) {
				t.Errorf("Probe on a disk that fails: %v", err)
			}
		}
		w.disk.Before = nil
		_, err = store.OpenFolder("disk", w.disk.Folder())
		if want := fmt.Sprintf("locked by process %d;", os.Getpid()); !errors.Is(err, store.ErrLocked) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("open again: %v, want %q in it", err, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A disk that has no space for the usual room gets a file with less, and the next save uses that.
// If it has no space for that either, Save fails and keeps the old content.
func TestFullDisk(t *testing.T) {
	w := newWorld(1)
	s, err := store.OpenFolder("disk", w.disk.Folder())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.checkLoad(s); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		record := member.Record{Key: fmt.Sprint("large", i), Value: make([]byte, 1000)}
		w.next.Held.Records = w.next.Held.Records.Put(record)
	}
	full, writes := 1, 0
	w.disk.Before = func(op Op) error {
		if op != Write {
			return nil
		}
		if writes++; writes <= full {
			return syscall.ENOSPC
		}
		return nil
	}
	if err := w.checkSave(s); err != nil || writes != 2 {
		t.Errorf("Save with less room: %v, %d writes, want 2", err, writes)
	}
	size := 0
	for _, f := range w.disk.files {
		size = max(size, len(f.content))
	}
	if size < 100<<10 || size > 300<<10 {
		t.Errorf("the file has %d bytes, want its content and little room", size)
	}
	if err := w.checkSave(s); err != nil || writes != 3 {
		t.Errorf("Save into that room: %v, %d writes, want 1", err, writes-2)
	}
	full = math.MaxInt
	for range 2 { // an entry, and then a file
		if err := w.checkSave(s); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Save on a full disk: got %v, want ENOSPC", err)
		}
	}
	w.disk.Before = nil
	w.disk.Crash()
	if err := w.runProcess(); err != nil {
		t.Error(err)
	}
}

// A directory is locked until its process ends, and no longer.
func TestLocks(t *testing.T) {
	d := New(rand.New(rand.NewPCG(1, 1)))
	for range 3 {
		s, err := store.OpenFolder("disk", d.Folder())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.OpenFolder("disk", d.Folder()); !errors.Is(err, store.ErrLocked) {
			t.Errorf("OpenFolder of a store in use: got %v, want ErrLocked", err)
		}
		d.Kill()
		if err := s.Close(); !errors.Is(err, ErrDead) {
			t.Errorf("Close of a killed process: got %v, want ErrDead", err)
		}
	}
}
