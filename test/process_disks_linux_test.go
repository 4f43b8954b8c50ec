// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/cluster"
)

// The requests of FIFREEZE and FITHAW (linux/fs.h).
const (
	freezeRequest = 0xc0045877
	thawRequest   = 0xc0045878
)

// disk is a file system in a file.
type disk struct {
	t    *testing.T
	root *os.File
}

// mountDisk mounts a new file system for the data directory of node i. It skips the test if the
// machine cannot do that.
func (c *nodes) mountDisk(i int) *disk {
	c.t.Helper()
	if os.Geteuid() != 0 {
		c.t.Skip("not root, so no file system can be mounted")
	}
	image, dir := c.store(i)+".image", c.store(i)
	if err := os.Mkdir(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(image, make([]byte, 8<<20), 0o600); err != nil {
		c.t.Fatal(err)
	}
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, dir},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			c.t.Skipf("no file system in a file on this machine: %v: %v\n%s", command, err, out)
		}
	}
	d := &disk{t: c.t}
	var err error
	if d.root, err = os.Open(dir); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		d.root.Close()
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			c.t.Error(err)
		}
	})
	return d
}

func (d *disk) sendRequest(what uint) error { return unix.IoctlSetInt(int(d.root.Fd()), what, 0) }

// freezeWrites lets no write to the file system end until it is thawed.
func (d *disk) freezeWrites() {
	d.t.Helper()
	if err := d.sendRequest(freezeRequest); err != nil {
		d.t.Skipf("the file system cannot be frozen on this machine: %v", err)
	}
	// A process that waits for the disk cannot be killed, so this comes first at the end.
	d.t.Cleanup(func() { _ = d.sendRequest(thawRequest) }) // fails after thawWrites
}

func (d *disk) thawWrites() {
	d.t.Helper()
	if err := d.sendRequest(thawRequest); err != nil {
		d.t.Fatal(err)
	}
}

// readHealth returns the status of a health check, and the code of its error.
func (c *nodes) readHealth(i int, query string) (status int, code string) {
	c.t.Helper()
	r, err := c.get(i, "/readyz"+query)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	var body struct{ Code string }
	content, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = json.Unmarshal(content, &body) // the body of status 200 is no error
	return r.StatusCode, body.Code
}

// countCopies returns how many copies node i has found, as its metrics show.
func (c *nodes) countCopies(i int) (n int) {
	c.t.Helper()
	r, err := c.get(i, "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(content), "\nathena_restored_copies_total{")
	_, count, _ := strings.Cut(line, "} ")
	_, _ = fmt.Sscan(count, &n) // 0 without such a line
	return n
}

// TestProcessOnAFrozenDisk freezes the file system of the leader. Within 5 s, after which an idle
// node writes, and HeartbeatTimeout, its health checks fail. With the next change another node
// leads. When the file system is thawed, the same process is a member again.
func TestProcessOnAFrozenDisk(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	disks := []*disk{c.mountDisk(1), c.mountDisk(2), c.mountDisk(3)}
	all := []*process{
		c.start(1, "--admin-write"), c.start(2, "--admin-write"), c.start(3, "--admin-write"),
	}
	frozen := c.settle(1, 2, 3)
	for i := range all {
		eventually(t, fmt.Sprintf("n%d votes", i+1), func() bool {
			status, _ := c.readHealth(i+1, "?votes")
			return status == http.StatusOK
		})
	}
	before, _ := c.status(frozen)
	disks[frozen-1].freezeWrites()
	began := time.Now()
	for _, query := range []string{"?votes", ""} {
		eventually(t, "a node whose disk is frozen is not ready", func() bool {
			status, code := c.readHealth(frozen, query)
			return status == http.StatusServiceUnavailable && code == "not_saving"
		})
	}
	// A busy machine may be late.
	noticed := 5*time.Second + cluster.DefaultConfig().HeartbeatTimeout
	if took := time.Since(began); took > 2*noticed {
		t.Errorf("not ready after %v, want %v", took, noticed)
	}
	other := frozen%3 + 1
	begun := newNotes(t)
	holder := c.verb(other, "lock", "lock/held", begun.script(untilTerm)...)
	eventually(t, "another node leads", func() bool {
		s, ok := c.status(other)
		f, alive := c.status(frozen)
		leads := ok && alive && s.Token > before.Token
		if leads && f.IsLeader() && f.LeaseRemainingMS > 0 && f.Token == before.Token {
			t.Errorf("%d still leads with the token %d beside %d", frozen, f.Token, s.Token)
		}
		return leads
	})
	begun.want("begin")
	disks[frozen-1].thawWrites()
	c.settle(1, 2, 3)
	eventually(t, "the thawed node votes", func() bool {
		status, _ := c.readHealth(frozen, "?votes")
		return status == http.StatusOK
	})
	const warning = "the disk does not answer: this node cannot save and is not ready"
	for i, p := range all {
		// On a busy machine the other disks may be slow too, but then they answer again.
		eventually(t, fmt.Sprintf("n%d reports that its disk answers", i+1), func() bool {
			log := p.stderr.String()
			return strings.LastIndex(log, warning) <= strings.LastIndex(log, "the disk answers again")
		})
		if i == frozen-1 && !strings.Contains(p.stderr.String(), warning) {
			t.Errorf("n%d does not warn of its disk", frozen)
		}
	}
	holder.signal(syscall.SIGTERM)
	holder.ended(7, "")
}

// TestProcessesWithRestoredDirectories restores the directories of two of three nodes from copies.
// The versions have moved on since, and the third node is down, so its token is used again. When it
// returns, all log an error and count it, and the next leader has a greater token.
func TestProcessesWithRestoredDirectories(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	all, _ := c.startAll()
	stop := func(p *process) {
		t.Helper()
		p.signal(syscall.SIGKILL)
		p.wait()
	}
	for _, p := range all {
		stop(p)
	}
	for i := range all { // none remembers a later run of another one
		copyDirectory(t, c.store(i+1), c.store(i+1)+".copy")
		all[i] = c.start(i + 1)
	}
	leader := c.settle(1, 2, 3)
	for range 2 { // versions that the copies do not know
		stop(all[leader-1])
		old := leader
		eventually(t, "another node leads", func() bool {
			s, ok := c.status(old%3 + 1)
			return ok && s.Token > 0 && s.View.Leader.String() != c.addrs[old-1]
		})
		all[old-1] = c.start(old)
		leader = c.settle(1, 2, 3)
	}
	known, _ := c.status(leader)
	for _, p := range all {
		stop(p)
	}
	for i := range all {
		if i+1 != leader {
			if err := os.RemoveAll(c.store(i + 1)); err != nil {
				t.Fatal(err)
			}
			copyDirectory(t, c.store(i+1)+".copy", c.store(i+1))
			all[i] = c.start(i + 1)
		}
	}
	other := leader%3 + 1
	var again uint64
	eventually(t, "the copies have a leader", func() bool {
		s, ok := c.status(other)
		again = s.Token
		return ok && again > 0 && time.Since(*s.TermSince) > cluster.DefaultConfig().LeaderTimeout
	})
	if again > known.Token {
		t.Fatalf("token %d after %d, so the test proves nothing", again, known.Token)
	}
	all[leader-1] = c.start(leader)
	c.settle(1, 2, 3)
	const text = "a member holds a later state than the leader: a majority of the data directories " +
		"was restored from copies, and tokens were used twice; delete no directory"
	for i, p := range all {
		eventually(t, fmt.Sprintf("n%d logs and counts it", i+1), func() bool {
			return strings.Contains(p.stderr.String(), text) && c.countCopies(i+1) > 0
		})
	}
	eventually(t, "a token that was never used", func() bool {
		s, ok := c.status(other)
		return ok && s.Token > known.Token
	})
}

// copyDirectory copies the files of a directory.
func copyDirectory(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(to, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
