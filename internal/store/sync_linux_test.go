// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// whenSync says which calls of fsync fail.
type whenSync struct{ folder, others bool }

// with does something on a thread whose calls of fsync fail with EIO: those of
// the file descriptor folder, or all others. The kernel refuses them (seccomp),
// so the code under test is the real one down to the system call.
func (w whenSync) with(t *testing.T, folder uintptr, do func() error) error {
	t.Helper()
	verdict := func(fails bool) uint32 {
		if fails {
			return unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)
		}
		return unix.SECCOMP_RET_ALLOW
	}
	const load, equal, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS,
		unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // number of the system call
		{Code: equal, K: unix.SYS_FSYNC, Jt: 1},
		{Code: end, K: unix.SECCOMP_RET_ALLOW},
		{Code: load, K: 16}, // low word of its first argument
		{Code: equal, K: uint32(folder), Jf: 1},
		{Code: end, K: verdict(w.folder)},
		{Code: end, K: verdict(w.others)},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	var missing, err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the filter
		missing = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if missing == nil {
			missing = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
				uintptr(unsafe.Pointer(&program)), 0, 0)
		}
		if missing == nil {
			err = do()
		}
	}()
	<-done
	runtime.KeepAlive(&program)
	if missing != nil {
		t.Skipf("the kernel does not take a seccomp filter: %v", missing)
	}
	return err
}

// Whoever answered from what it saved must find it after a power cut. A save
// that cannot sync the new file keeps the old one: the sync comes before the
// rename. One that cannot sync the folder fails with the new one in place: that
// sync comes after the rename.
func TestSyncBeforeAndAfterRename(t *testing.T) {
	for _, c := range []struct {
		name string
		when whenSync
		fail error
		want Content
	}{
		{"none fails", whenSync{}, nil, fresh2()},
		{"of the new file fails", whenSync{others: true}, syscall.EIO, typical()},
		{"of the folder fails", whenSync{folder: true}, syscall.EIO, fresh2()},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := saved(t, typical())
			s := open(t, dir)
			load(t, s)
			err := c.when.with(t, s.folder.file.Fd(), func() error { return s.Save(fresh2()) })
			if !errors.Is(err, c.fail) {
				t.Errorf("Save = %v, want %v", err, c.fail)
			}
			if got, ok := load(t, s); !ok || !cmp.Equal(c.want, got) {
				t.Errorf("the store holds: %v (-want +got):\n%s", ok, cmp.Diff(c.want, got))
			}
			if got, want := names(t, dir), []string{lockName, stateName}; !slices.Equal(got, want) {
				t.Errorf("files %q, want %q", got, want)
			}
		})
	}
}

// So must an entry be synced; the file in which one could not be is not gone on with.
func TestSyncOfAnEntry(t *testing.T) {
	for _, c := range []struct {
		name string
		when whenSync
		fail error
	}{
		{"none fails", whenSync{folder: true}, nil},
		{"fails", whenSync{others: true}, syscall.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, t.TempDir())
			load(t, s)
			save(t, s, typical())
			before := identityOf(t, s.folder.path)
			err := c.when.with(t, s.folder.file.Fd(), func() error { return s.Save(fresh2()) })
			if !errors.Is(err, c.fail) || !os.SameFile(before, identityOf(t, s.folder.path)) {
				t.Errorf("Save into the room = %v, want %v, in the same file", err, c.fail)
			}
			save(t, s, fresh())
			if same := os.SameFile(before, identityOf(t, s.folder.path)); same != (c.fail == nil) {
				t.Errorf("the next Save: in the same file: %v", same)
			}
			if got, ok := load(t, s); !ok || !cmp.Equal(fresh(), got) {
				t.Errorf("the store holds %v: %+v", ok, got)
			}
		})
	}
}

// A folder whose entry could not be synced may be gone after a power cut.
func TestSyncOfNewDirectories(t *testing.T) {
	top := t.TempDir()
	for _, path := range []string{"one", "one/two"} {
		dir := filepath.Join(top, path)
		err := whenSync{others: true}.with(t, 0, func() error { return makeDir(dir) })
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("makeDir(%s) = %v, want %v", path, err, syscall.EIO)
		}
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("synced before it was made: %v", err)
		}
	}
}
