// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// If childDir is set, the test binary acts as another process that uses the store in that
// directory. childRole selects what the process does.
const (
	childDir  = "ATHENA_STORE_TEST_DIR"
	childRole = "ATHENA_STORE_TEST_ROLE"
	childCut  = "ATHENA_STORE_TEST_CUT" // bytes of an entry to write
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := playChild(dir, os.Getenv(childRole)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func playChild(dir, role string) error {
	s, err := OpenFile(dir)
	if err != nil {
		return err
	}
	switch role {
	case "hold": // uses the store until the parent closes the pipe or kills this process
		fmt.Println("holding")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	case "starved":
		return saveStarved(s)
	case "full", "fuller": // the size of files is limited, as on a full disk
		if _, _, err := s.Load(); err != nil {
			return err
		}
		limit := syscall.Rlimit{Cur: 512, Max: 512}
		if role == "fuller" { // the limit is in the middle of the second entry
			if err := s.Save(typical()); err != nil {
				return err
			}
			cut, err := strconv.Atoi(os.Getenv(childCut))
			if err != nil {
				return err
			}
			limit.Cur = uint64(s.wrote.end + cut)
			limit.Max = limit.Cur
		}
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
		return s.Save(fresh2())
	}
	return fmt.Errorf("no role %q", role)
}

// fresh2 differs from typical and exceeds the limit of the child.
func fresh2() Content {
	d := typical()
	d.Incarnation = 77
	return d
}

func child(t *testing.T, dir, role string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childDir+"="+dir, childRole+"="+role)
	return cmd
}

func open(t testing.TB, dir string) *File {
	t.Helper()
	s, err := OpenFile(dir)
	if err != nil {
		t.Fatalf("OpenFile(%s): %v", dir, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func load(t testing.TB, s *File) (Content, bool) {
	t.Helper()
	d, ok, err := s.Load()
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return d, ok
}

func save(t testing.TB, s *File, d Content) {
	t.Helper()
	if err := s.Save(d); err != nil {
		t.Fatalf("Save: %v", err)
	}
}

// saved returns a closed store that contains d.
func saved(t *testing.T, d Content) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	load(t, s)
	save(t, s, d)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func checkHolds(t *testing.T, dir string, want Content) {
	t.Helper()
	s := open(t, dir)
	defer s.Close()
	got, ok := load(t, s)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("the store holds: %v (-want +got):\n%s", ok, diff)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestNewStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet", "there")
	s := open(t, dir)
	if d, ok := load(t, s); ok {
		t.Errorf("a new store holds %+v", d)
	}
	save(t, s, typical())
	if _, err := s.ResetKey(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		".": 0o700, stateName: 0o600, lockName: 0o600, keyName: 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", name, got, want)
		}
	}
	if got, want := names(t, dir), []string{lockName, stateName, keyName}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

func TestSaveAndLoad(t *testing.T) {
	dir := saved(t, fresh())
	checkHolds(t, dir, fresh())
	s := open(t, dir)
	load(t, s)
	for _, want := range []Content{typical(), largest(), fresh()} {
		save(t, s, want)
		if got, ok := load(t, s); !ok || !cmp.Equal(want, got) {
			t.Errorf("Load after Save: %v (-want +got):\n%s", ok, cmp.Diff(want, got))
		}
	}
	s.Close()
	checkHolds(t, dir, fresh())
}

func TestResetKeyStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	first, err := s.ResetKey()
	if err != nil || first == [32]byte{} {
		t.Fatalf("ResetKey = %x, %v", first, err)
	}
	s.Close()
	again, err := open(t, dir).ResetKey()
	if err != nil || again != first {
		t.Errorf("ResetKey = %x, %v after a restart, want %x", again, err, first)
	}
	other, err := open(t, t.TempDir()).ResetKey()
	if err != nil || other == first {
		t.Errorf("ResetKey of another store = %x, %v, want another", other, err)
	}
}

func TestDamagedResetKey(t *testing.T) {
	s := open(t, t.TempDir())
	path := filepath.Join(s.dir.path, keyName)
	for _, content := range []string{
		"", "\n", strings.Repeat("ab", 31), strings.Repeat("ab", 33), strings.Repeat("a", 63),
		strings.Repeat("xy", 32), strings.Repeat("a", 4096),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := s.ResetKey()
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: ResetKey = %x, %v, want ErrCorrupt with the path", content, key, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q became %q, %v", content, got, err)
		}
	}
}

func TestUnreadableFileIsNeverReplaced(t *testing.T) {
	sound := mustFormat(t, typical())
	numbered := bytes.Replace(sound, []byte(" 5 "), []byte(" 4 "), 1)
	later, early := otherVersion(t, "6"), otherVersion(t, "4")
	for _, c := range []struct {
		name, says string
		content    []byte
		want       error
	}{
		{"empty", "JoinOnly", nil, ErrCorrupt},
		{"torn", "JoinOnly", sound[:len(sound)/2], ErrCorrupt},
		{"flipped", "JoinOnly", append(bytes.Clone(sound[:200]), sound[201:]...), ErrCorrupt},
		{"too large", "JoinOnly", make([]byte, maxStateBytes+1), ErrCorrupt},
		{"of a later version", "later one", later, ErrVersion},
		{"of before the first release", "from before the first release", early, ErrVersion},
		{"number of a version changed", "move the data directory of this", numbered, ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, t.TempDir())
			path := filepath.Join(s.dir.path, stateName)
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			d, ok, err := s.Load()
			if ok || !errors.Is(err, c.want) {
				t.Fatalf("Load = %+v, %v, %v, want %v", d, ok, err, c.want)
			}
			for _, part := range []string{path, c.says} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
			if c.want == ErrCorrupt && strings.Contains(err.Error(), "every node") {
				t.Errorf("error %q asks for a change of every node", err)
			}
			if err := s.Save(typical()); err == nil {
				t.Error("Save after a failed Load: no error")
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, c.content) {
				t.Errorf("the file was changed to %d bytes, %v", len(got), err)
			}
		})
	}
}

func TestSaveBeforeLoadIsRefused(t *testing.T) {
	dir := saved(t, typical())
	s := open(t, dir)
	if err := s.Save(fresh()); err == nil {
		t.Error("Save before Load: no error")
	}
	s.Close()
	checkHolds(t, dir, typical())
}

func TestInvalidStateIsNotSaved(t *testing.T) {
	dir := saved(t, typical())
	s := open(t, dir)
	load(t, s)
	bad := typical()
	bad.Held.Roster[1].Status = member.None
	if err := s.Save(bad); err == nil || !strings.Contains(err.Error(), "nothing was saved") {
		t.Errorf("Save of a bad roster = %v", err)
	}
	s.Close()
	checkHolds(t, dir, typical())
}

func TestWritableByOthersIsRefused(t *testing.T) {
	for _, name := range []string{".", stateName, keyName} {
		for _, mode := range []fs.FileMode{0o720, 0o702, 0o777} {
			dir := saved(t, typical())
			s := open(t, dir)
			if _, err := s.ResetKey(); err != nil {
				t.Fatal(err)
			}
			s.Close()
			path := filepath.Join(dir, name)
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			err := openLoadKey(dir)
			if !errors.Is(err, ErrInsecure) || !strings.Contains(err.Error(), "chmod 0") {
				t.Errorf("%s with mode %04o: got %v, want ErrInsecure with a command", name, mode, err)
			}
		}
	}
}

// openLoadKey calls every method that reads.
func openLoadKey(dir string) error {
	s, err := OpenFile(dir)
	if err != nil {
		return err
	}
	_, _, loadErr := s.Load()
	_, keyErr := s.ResetKey()
	return errors.Join(loadErr, keyErr, s.Close())
}

// The reset key is secret, because anyone who knows it can reset the node's connections.
func TestKeyReadableByOthersIsRefused(t *testing.T) {
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o644, 0o610} {
		dir := saved(t, typical())
		s := open(t, dir)
		first, err := s.ResetKey()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, keyName)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err = s.ResetKey()
		command := "run chmod 0600 " + path
		if !errors.Is(err, ErrInsecure) || !strings.Contains(err.Error(), command) ||
			!strings.Contains(err.Error(), "remove it") {
			t.Errorf("key of mode %04o: got %v, want ErrInsecure with %q", mode, err, command)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := s.ResetKey(); err != nil || again != first {
			t.Errorf("after that command: got %x, %v, want the key as it was", again, err)
		}
	}
}

// TestReadableByOthers checks that other users may list the directory, but may not read the state,
// which has the key of the store.
func TestReadableByOthers(t *testing.T) {
	dir := saved(t, typical())
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	checkHolds(t, dir, typical())
	state := filepath.Join(dir, stateName)
	for _, mode := range []fs.FileMode{0o640, 0o604} {
		if err := os.Chmod(state, mode); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Peek(dir); !errors.Is(err, ErrInsecure) ||
			!strings.Contains(err.Error(), "chmod 0600 "+state) {
			t.Errorf("mode %04o: got %v, want %v and the remedy", mode, err, ErrInsecure)
		}
	}
}

func TestWhatIsNoDirectoryOrFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "below")} {
		if s, err := OpenFile(dir); err == nil {
			t.Errorf("OpenFile(%q) = %v, want an error", dir, s)
		}
	}
	for _, name := range []string{stateName, keyName} {
		dir := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := openLoadKey(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s as a pipe: got %v, want: not a regular file", name, err)
		}
	}
}

func TestLockAgainstAnotherHandle(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	_, err := OpenFile(dir)
	pid := fmt.Sprintf("process %d;", os.Getpid())
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) ||
		!strings.Contains(err.Error(), pid) {
		t.Errorf("second OpenFile = %v, want ErrLocked with %q and %q", err, dir, pid)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestLockAgainstAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := child(t, dir, "hold")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("holding\n"))
	if _, err := io.ReadFull(out, line); err != nil {
		t.Fatalf("the child printed %q, %v", line, err)
	}
	_, err = OpenFile(dir)
	pid := fmt.Sprintf("process %d;", cmd.Process.Pid)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), pid) {
		t.Errorf("OpenFile beside process %d = %v, want ErrLocked with its id", cmd.Process.Pid, err)
	}
	// The lock ends with the process.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	in.Close()
	open(t, dir)
}

func TestLeftoversAreRemoved(t *testing.T) {
	dir := saved(t, typical())
	keep := []string{".athena.state", ".athena.state12a", ".other.state12", "athena.state.bak",
		"athena.state.0a1b.7", ".athena.state.0a1b.", ".athena.state.x.71", ".reset.key.0a.71"}
	gone := []string{".athena.state12", ".athena.state9223372036854775807", ".reset.key1",
		".athena.state.0a1b.71234"}
	for _, name := range slices.Concat(keep, gone) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half a fi"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	checkHolds(t, dir, typical())
	want := append(slices.Clone(keep), lockName, stateName)
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

func TestFullDiskLeavesTheOldFile(t *testing.T) {
	dir := saved(t, typical())
	out, err := child(t, dir, "full").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "write "+filepath.Join(dir, stateName)) {
		t.Errorf("Save on a full disk: %v, %q, want an error about the write", err, out)
	}
	if got, want := names(t, dir), []string{lockName, stateName}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	checkHolds(t, dir, typical())
}

func TestReadOnlyDirectoryLeavesTheOldFile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions do not bind root; TestFailedRename shows the same path")
	}
	dir := saved(t, typical())
	s := open(t, dir)
	load(t, s)
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if err := s.Save(fresh()); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Save into a read-only directory = %v, want ErrPermission", err)
	}
	if got, ok := load(t, s); !ok || !cmp.Equal(got, typical()) {
		t.Errorf("the store holds %+v, %v", got, ok)
	}
}

func TestFailedRename(t *testing.T) {
	s := open(t, t.TempDir())
	load(t, s)
	// A directory cannot be replaced by a file.
	if err := os.Mkdir(filepath.Join(s.dir.path, stateName), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(fresh()); err == nil {
		t.Error("Save over a directory: no error")
	}
	if got, want := names(t, s.dir.path), []string{lockName, stateName}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q: the new file must be gone", got, want)
	}
}

func TestDirectoryRemovedUnderneath(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "data"))
	load(t, s)
	if err := os.RemoveAll(s.dir.path); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(fresh()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Save without its directory = %v, want ErrNotExist", err)
	}
}

// TestPeek checks that Peek returns the result of Load, even while a process uses the store, and
// creates nothing.
func TestPeek(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if c, known, err := Peek(dir); known || err != nil {
		t.Errorf("no store: %v, %v, %v, want none", c, known, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Peek made the directory: %v", err)
	}
	s := open(t, dir)
	if _, known, err := Peek(dir); known || err != nil {
		t.Errorf("empty store: %v, %v, want none", known, err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{lockName}) {
		t.Errorf("Peek made files: %q", got)
	}
	load(t, s)
	want := typical()
	save(t, s, want)
	if _, err := s.ResetKey(); err != nil {
		t.Fatal(err)
	}
	if c, known, err := Peek(dir); !known || err != nil || !cmp.Equal(c, want) {
		t.Errorf("in use: %v, %v\n%s", known, err, cmp.Diff(want, c))
	}
}

// TestPeekSaysWhatOpenWould checks that Peek returns the errors of OpenFile and changes
// nothing.
func TestPeekSaysWhatOpenWould(t *testing.T) {
	write := func(name, text string) func(dir string) error {
		return func(dir string) error {
			return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		}
	}
	for _, c := range []struct {
		name, below string
		harm        func(dir string) error
		want        string
	}{
		{"damaged state", "", write(stateName, "x"), "move the data directory of this node away"},
		{"damaged key", "", write(keyName, "x\n"), "remove it to create a new one"},
		{"open to all", "", func(dir string) error { return os.Chmod(dir, 0o777) }, "run chmod 0700 "},
		{"open key", "", func(dir string) error {
			return errors.Join(write(keyName, "")(dir), os.Chmod(filepath.Join(dir, keyName), 0o640))
		}, "run chmod 0600 "},
		{"file", "f", write("f", ""), "f is not a directory: use another path"},
		{"below a file", "f/a/b", write("f", ""), "f is not a directory: use another path"},
		{"link to nothing", "l", func(dir string) error {
			return os.Symlink(filepath.Join(dir, "nothing"), filepath.Join(dir, "l"))
		}, "l is a dangling symbolic link"},
		{"below a link to nothing", "l/a", func(dir string) error {
			return os.Symlink(filepath.Join(dir, "nothing"), filepath.Join(dir, "l"))
		}, "l is a dangling symbolic link"},
		{"lock is a directory", "", func(dir string) error {
			return os.Mkdir(filepath.Join(dir, lockName), 0o700)
		}, "athena.lock is not a regular file"},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, 0o700), c.harm(dir)); err != nil {
			t.Fatal(err)
		}
		root, before := dir, names(t, dir)
		dir = filepath.Join(dir, c.below)
		_, known, err := Peek(dir)
		if known || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want %q", c.name, known, err, c.want)
			continue
		}
		if after := names(t, root); !slices.Equal(before, after) {
			t.Errorf("%s: Peek left %q of %q", c.name, after, before)
		}
		if opened := openLoadKey(dir); opened == nil || opened.Error() != err.Error() {
			t.Errorf("%s: OpenFile, Load and ResetKey say %v, and Peek %v", c.name, opened, err)
		}
	}
}

func TestClosed(t *testing.T) {
	s := open(t, t.TempDir())
	load(t, s)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	_, _, loadErr := s.Load()
	_, keyErr := s.ResetKey()
	for name, err := range map[string]error{
		"Load": loadErr, "Save": s.Save(fresh()), "ResetKey": keyErr,
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close = %v, want ErrClosed", name, err)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	s := open(t, t.TempDir())
	load(t, s)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if err := s.Save(typical()); err != nil {
					t.Error(err)
				}
				if _, ok, err := s.Load(); !ok || err != nil {
					t.Error(ok, err)
				}
			}
		})
	}
	wg.Wait()
}

// identityOf returns the info of the state file. The info differs after the file is replaced.
func identityOf(t *testing.T, dir string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, stateName))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// Saves fill the room of a file before they create a new file, and readers see each Save
// immediately.
func TestSavesFillTheRoom(t *testing.T) {
	for _, records := range []int{0, 1000} {
		dir := saved(t, typical())
		s := open(t, dir)
		load(t, s)
		c := typical()
		c.Held.Records = many(records)
		const saves = 400
		files, file := 0, identityOf(t, dir)
		for n := range saves {
			c.Held.Revision++
			if records > 0 {
				e := manyRecords(records)[n*7%records]
				e.Token = member.Token(c.Held.Number)
				c.Held.Records = c.Held.Records.Put(e)
			}
			save(t, s, c)
			if now := identityOf(t, dir); !os.SameFile(file, now) {
				files, file = files+1, now
			} else if file.Size() != now.Size() {
				t.Fatalf("save %d: the file grew from %d to %d bytes", n, file.Size(), now.Size())
			}
			if n%40 > 0 {
				continue
			}
			if got, known, err := Peek(dir); err != nil || !known || !cmp.Equal(got, c) {
				t.Fatalf("save %d: %v, %v (-want +got):\n%s", n, known, err, cmp.Diff(c, got))
			}
		}
		if files < 2 || files > saves/10 {
			t.Errorf("%d records: %d files for %d saves", records, files, saves)
		}
		s.Close()
		checkHolds(t, dir, c)
	}
}

// After a crash, the next Save creates a new file rather than append to the unfinished
// entry.
func TestSaveAfterATornEntry(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	load(t, s)
	save(t, s, typical())
	end := s.wrote.end
	save(t, s, fresh2())
	s.Close()
	path := filepath.Join(dir, stateName)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(content[end+sectorBytes:], emptySector())
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	checkHolds(t, dir, typical())
	s = open(t, dir)
	load(t, s)
	before := identityOf(t, dir)
	save(t, s, fresh())
	if os.SameFile(before, identityOf(t, dir)) {
		t.Error("the file with the torn entry is in use still")
	}
	s.Close()
	checkHolds(t, dir, fresh())
}

// Save does not append to a file that another process has changed.
func TestSaveIntoAnotherFile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"gone": os.Remove,
		"cut":  func(path string) error { return os.Truncate(path, 100) },
	} {
		s := open(t, t.TempDir())
		load(t, s)
		save(t, s, typical())
		if err := change(filepath.Join(s.dir.path, stateName)); err != nil {
			t.Fatal(err)
		}
		save(t, s, fresh2())
		if got, ok := load(t, s); !ok || !cmp.Equal(got, fresh2()) {
			t.Errorf("%s: the store holds %+v, %v", name, got, ok)
		}
	}
}

func TestFullDiskLeavesTheOldEntry(t *testing.T) {
	for _, cut := range []int{0, 1, 100, 510, 511, 512, 700, 1024} {
		dir := saved(t, fresh())
		cmd := child(t, dir, "fuller")
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", childCut, cut))
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "write "+filepath.Join(dir, stateName)) {
			t.Errorf("Save on a full disk: %v, %q, want an error about the write", err, out)
		}
		checkHolds(t, dir, typical())
	}
}

// Peek sees each concurrent Save completely or not at all.
func TestPeekDuringSaves(t *testing.T) {
	dir := saved(t, typical())
	s := open(t, dir)
	load(t, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 300 {
			c := typical()
			c.Held.Revision += uint64(n)
			if err := s.Save(c); err != nil {
				t.Error(err)
			}
		}
	}()
	last := typical().Held.Revision
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		c, known, err := Peek(dir)
		if !known || err != nil || c.Held.Revision < last {
			t.Fatalf("Peek = revision %d, %v, %v, after %d", c.Held.Revision, known, err, last)
		}
		last = c.Held.Revision
	}
}

func BenchmarkSave(b *testing.B) {
	for _, n := range []int{0, 100, 1000, member.MaxRecords} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			s := open(b, b.TempDir())
			load(b, s)
			c := typical()
			c.Accepted = paxos.Accepted{}
			list := manyRecords(n)
			c.Held.Records = newTable(list...)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.Held.Revision++
				if n > 0 {
					e := list[i%n]
					e.Token = member.Token(c.Held.Number)
					c.Held.Records = c.Held.Records.Put(e)
				}
				save(b, s, c)
			}
			info, err := os.Stat(filepath.Join(s.dir.path, stateName))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(info.Size()), "file-bytes")
		})
	}
}
