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

// whenSync selects the fsync calls that fail.
type whenSync struct{ dir, others bool }

// with calls the function do on a thread where fsync fails with EIO for the descriptor
// of the directory, or for all other descriptors. The kernel rejects the calls (seccomp), so all
// code down to the system call is real.
func (w whenSync) with(t *testing.T, dir uintptr, do func() error) error {
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
		{Code: equal, K: uint32(dir), Jf: 1},
		{Code: end, K: verdict(w.dir)},
		{Code: end, K: verdict(w.others)},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	var missing, err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread and its filter end together
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

// Content that a node saved before it answered must survive a power cut. Save syncs the new file
// before the rename. If that sync fails, the old content stays. Save syncs the directory after the
// rename. If that sync fails, the new content is in place.
func TestSyncBeforeAndAfterRename(t *testing.T) {
	for _, c := range []struct {
		name string
		when whenSync
		fail error
		want Content
	}{
		{"none fails", whenSync{}, nil, fresh2()},
		{"of the new file fails", whenSync{others: true}, syscall.EIO, typical()},
		{"of the dir fails", whenSync{dir: true}, syscall.EIO, fresh2()},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := saved(t, typical())
			s := open(t, dir)
			load(t, s)
			err := c.when.with(t, s.dir.folder.(hostFolder).Fd(), func() error { return s.Save(fresh2()) })
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

// An entry must also be synced. After a failure, the next Save creates a new file.
func TestSyncOfAnEntry(t *testing.T) {
	for _, c := range []struct {
		name string
		when whenSync
		fail error
	}{
		{"none fails", whenSync{dir: true}, nil},
		{"fails", whenSync{others: true}, syscall.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, t.TempDir())
			load(t, s)
			save(t, s, typical())
			before := identityOf(t, s.dir.path)
			err := c.when.with(t, s.dir.folder.(hostFolder).Fd(), func() error { return s.Save(fresh2()) })
			if !errors.Is(err, c.fail) || !os.SameFile(before, identityOf(t, s.dir.path)) {
				t.Errorf("Save into the room = %v, want %v, in the same file", err, c.fail)
			}
			save(t, s, fresh())
			if same := os.SameFile(before, identityOf(t, s.dir.path)); same != (c.fail == nil) {
				t.Errorf("the next Save: in the same file: %v", same)
			}
			if got, ok := load(t, s); !ok || !cmp.Equal(fresh(), got) {
				t.Errorf("the store holds %v: %+v", ok, got)
			}
		})
	}
}

// A directory whose own entry was not synced may disappear in a power cut.
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
