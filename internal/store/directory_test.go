// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// serviceUser is the owner of the directories of these tests, which run as root.
const serviceUser = 65534

// giveDir gives a directory and its files to the user of a service. It reports whether it
// succeeded, which requires root.
func giveDir(t *testing.T, dir string) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	for _, name := range append(names(t, dir), ".") {
		if err := os.Lchown(filepath.Join(dir, name), serviceUser, serviceUser); err != nil {
			t.Fatal(err)
		}
	}
	return true
}

// useAll opens every file of the store.
func useAll(dir string) error {
	_, _, peeked := Peek(dir)
	s, err := OpenFile(dir)
	if err != nil {
		return errors.Join(peeked, err)
	}
	_, _, loaded := s.Load()
	_, key := s.ResetKey()
	_, forgotten := s.Forget(0)
	return errors.Join(peeked, loaded, key, forgotten, s.Close())
}

// TestPlantedLinksAreRefused checks that the target of a link in the directory keeps its
// content and its owner.
func TestPlantedLinksAreRefused(t *testing.T) {
	for how, link := range map[string]func(target, name string) error{
		"symbolic link": os.Symlink, "hard link": os.Link,
	} {
		for _, name := range []string{lockName, stateName, keyName} {
			t.Run(how+" "+name, func(t *testing.T) {
				dir := saved(t, typical())
				giveDir(t, dir)
				target := filepath.Join(filepath.Dir(dir), "target")
				if err := os.WriteFile(target, []byte("keep me\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				before, err := os.Stat(target)
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, name)
				_ = os.Remove(path)
				if err := link(target, path); err != nil {
					t.Fatal(err)
				}
				if err := useAll(dir); err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("got %v, want an error that names %s", err, path)
				} else if strings.Contains(err.Error(), "chown") {
					t.Errorf("got %v, which would give the target away", err)
				}
				after, err := os.Stat(target)
				if err != nil {
					t.Fatal(err)
				}
				text, err := os.ReadFile(target)
				if err != nil || string(text) != "keep me\n" {
					t.Errorf("the target holds %q now, %v", text, err)
				}
				was, is := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
				if was.Uid != is.Uid || was.Gid != is.Gid || was.Mode != is.Mode {
					t.Errorf("the target has owner %d, mode %o now; it had %d, %o",
						is.Uid, is.Mode, was.Uid, was.Mode)
				}
			})
		}
	}
}

// TestForeignFilesAreRefused checks a file of one user in the directory of another. Root must
// neither use that file nor change its owner.
func TestForeignFilesAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users: run this test as root too")
	}
	for _, name := range []string{lockName, stateName, keyName} {
		dir := saved(t, typical())
		giveDir(t, dir)
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
		err := useAll(dir)
		if !errors.Is(err, ErrInsecure) || !strings.Contains(err.Error(), path+" belongs to user 0") ||
			!strings.Contains(err.Error(), fmt.Sprintf("chown -h %d", serviceUser)) {
			t.Errorf("%s: got %v, want ErrInsecure with the file, its owner and chown -h", name, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != 0 || info.Size() != 1 {
			t.Errorf("%s belongs to user %d and has %d bytes now", name, got, info.Size())
		}
	}
}

// TestRootLeavesAllFilesToTheOwner checks that all files that root writes belong to the
// owner of the directory.
func TestRootLeavesAllFilesToTheOwner(t *testing.T) {
	dir := t.TempDir()
	if !giveDir(t, dir) {
		t.Skip("only root can do what belongs to others: run this test as root too")
	}
	s := open(t, dir)
	load(t, s)
	if _, err := s.ResetKey(); err != nil {
		t.Fatal(err)
	}
	save(t, s, typical())
	save(t, s, fresh2())
	if _, err := s.Forget(0); err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != serviceUser {
			t.Errorf("%s belongs to user %d, want %d", name, got, serviceUser)
		}
	}
}

// TestReplacedDirectory checks that a store keeps using the directory that it opened, even
// if another one takes its name.
func TestReplacedDirectory(t *testing.T) {
	dir := saved(t, typical())
	s := open(t, dir)
	load(t, s)
	moved, elsewhere := dir+".moved", t.TempDir()
	if err := errors.Join(os.Rename(dir, moved), os.Symlink(elsewhere, dir)); err != nil {
		t.Fatal(err)
	}
	save(t, s, fresh())
	save(t, s, fresh2())
	if _, err := s.ResetKey(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, elsewhere); len(got) > 0 {
		t.Errorf("files %q in the directory that took its name", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkHolds(t, moved, fresh2())
}

// TestDeletedLockKeepsOthersOut checks that deleting the lock file of a running node does
// not admit a second process.
func TestDeletedLockKeepsOthersOut(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	for _, harm := range []func(path string) error{
		os.Remove,
		func(path string) error { return os.WriteFile(path, nil, 0o600) },
		func(path string) error {
			return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path))
		},
	} {
		if err := harm(filepath.Join(dir, lockName)); err != nil {
			t.Fatal(err)
		}
		if s, err := OpenFile(dir); !errors.Is(err, ErrLocked) {
			t.Fatalf("a second OpenFile = %v, %v, want ErrLocked", s, err)
		}
	}
	load(t, first)
	save(t, first, typical())
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	checkHolds(t, dir, typical())
}

// TestLockOfAnEarlierVersion checks that a process that locks only the file, as earlier versions
// did, excludes others.
func TestLockOfAnEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, 4711); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(dir); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), "process 4711;") {
		t.Errorf("OpenFile = %v, want ErrLocked with the process", err)
	}
}

// TestDirectoryIsClosedToOthers checks that the first process that opens a directory
// removes the permissions of other users.
func TestDirectoryIsClosedToOthers(t *testing.T) {
	for _, mode := range []os.FileMode{0o755, 0o750, 0o711, 0o700} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		open(t, dir)
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o700 {
			t.Errorf("mode %04o: got %04o once it is opened, want 0700", mode, got)
		}
	}
}

// TestLockOfAnotherUser checks the error if another user has locked the directory. Any user who can
// read it can lock it. The error must contain the remedy.
func TestLockOfAnotherUser(t *testing.T) {
	for mode, advised := range map[os.FileMode]bool{
		0o755: true, 0o750: true, 0o711: false, 0o700: false,
	} {
		dir := saved(t, typical())
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
			t.Fatal(err)
		}
		_, err = OpenFile(dir)
		if !errors.Is(err, ErrLocked) {
			t.Fatalf("mode %04o: OpenFile = %v, want ErrLocked", mode, err)
		}
		if got := strings.Contains(err.Error(), "run chmod 0700 "+dir); got != advised {
			t.Errorf("mode %04o: got %v, want the advice to run chmod: %t", mode, err, advised)
		}
	}
}

// TestPipeIsNoDirectory checks that a pipe in place of the directory is refused without
// waiting for its other end.
func TestPipeIsNoDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ends, err := os.OpenFile(path, os.O_RDWR, 0) // keeps the open of the pipe from blocking
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	d, err := openStoreDir(path)
	if err == nil {
		_ = d.close()
	}
	if !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("openStoreDir = %v, want %v", err, syscall.ENOTDIR)
	}
}

// starvedSaves is the number of saves of the child. These saves fill several files.
const starvedSaves = 600

// saveStarved saves repeatedly while the process has no free descriptors.
func saveStarved(s *File) error {
	if _, _, err := s.Load(); err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: 64, Max: 64}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	var all []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	for n := range starvedSaves {
		c := typical()
		c.Held.Revision = uint64(n)
		if err := s.Save(c); err != nil {
			return fmt.Errorf("save %d: %w", n, err)
		}
		if f, err := os.Open(os.DevNull); err == nil { // as a client of the admin API does
			all = append(all, f)
		}
	}
	for _, f := range all {
		_ = f.Close()
	}
	return nil
}

// TestSaveWithoutFreeDescriptors checks that a process without free descriptors can still save,
// both into the current file and into a new file.
func TestSaveWithoutFreeDescriptors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if out, err := child(t, dir, "starved").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := typical()
	want.Held.Revision = starvedSaves - 1
	checkHolds(t, dir, want)
	if got := names(t, dir); !slices.Equal(got, []string{lockName, stateName}) {
		t.Errorf("files %q, want the lock and the state", got)
	}
}

// TestWhatIsOpenIsClosed checks that no descriptor is leaked, neither by errors nor by
// Close.
func TestWhatIsOpenIsClosed(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Skip("no /dev/fd: ", err)
		}
		return len(entries)
	}
	dir := saved(t, typical())
	before := count()
	for range 10 {
		s, err := OpenFile(dir)
		if err != nil {
			t.Fatal(err)
		}
		load(t, s)
		save(t, s, typical())
		save(t, s, fresh2())
		if _, err := OpenFile(dir); !errors.Is(err, ErrLocked) {
			t.Fatal(err)
		}
		if _, known, err := Peek(dir); !known || err != nil {
			t.Fatal(known, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFile(dir); !errors.Is(err, ErrInsecure) {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if after := count(); after > before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
	if diff := cmp.Diff([]string{lockName, stateName}, names(t, dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
