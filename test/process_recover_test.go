// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
)

// TestProcessRecover checks recovery after two of three nodes have permanently lost their
// directories, among them those with the newest state. The third one reports the loss, and discards
// its state only when it is stopped and the user confirms. All three then form a new cluster. Its
// tokens continue above those that the third node knows, and above --tokens-above.
func TestProcessRecover(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	all, _ := c.startAll()
	kill := func(nodes []*process) {
		for _, p := range nodes {
			p.signal(syscall.SIGKILL)
			p.wait()
		}
	}
	kill(all)
	known, others := c.leaveBehind()
	kill(others)
	for i := 2; i <= 3; i++ {
		if err := os.RemoveAll(c.store(i)); err != nil {
			t.Fatal(err)
		}
	}
	recoverArgs := []string{"recover", "--data-dir", c.store(1)}
	refused := func(when, want string, code int, more ...string) {
		t.Helper()
		path := filepath.Join(c.store(1), "athena.state")
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, _, stderr := run(t, append(recoverArgs, more...)...)
		if got != code || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s; want %d and %q", when, got, stderr, code, want)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
			t.Errorf("%s: the state changed, %v", when, err)
		}
	}
	all = []*process{c.start(1), c.start(2, "--join-only"), c.start(3, "--join-only")}
	eventually(t, "node 1 logs that too many stores are lost", func() bool {
		s, ok := c.status(1)
		return ok && strings.Contains(s.NoLeader, "too many members lost their stores")
	})
	kill(all[1:])
	// The state may change while the node is running: refusals are checked below.
	if code, _, stderr := run(t, append(recoverArgs, "--confirm", "athena")...); code != 1 ||
		!strings.Contains(stderr, "stop the node first") {
		t.Errorf("while the node runs: exit %d, %s; want 1 and advice to stop it", code, stderr)
	}
	kill(all[:1])
	refused("without a word", `add --confirm "athena"`, 1)
	refused("for another cluster", `the store belongs to cluster "athena"`, 2, "--confirm", "other")

	code, stdout, stderr := run(t, append(recoverArgs, "--confirm", "athena")...)
	if code != 0 || !strings.Contains(stdout, c.addrs[2]) ||
		!strings.Contains(stdout, fmt.Sprintf("continue above %v.", member.Token{Version: known})) {
		t.Fatalf("exit %d, %s, %s; want 0, what it discarded, and the next steps", code, stdout, stderr)
	}
	refused("again", fmt.Sprint("above ", member.Token{Version: known}), 1, "--confirm", "athena")

	c.recoverAbove(known, 2, 3)
	all, leader := c.startAll()
	if s, ok := c.status(leader); !ok || s.Token != known+1 {
		t.Errorf("got token %d, want %d in the new cluster", s.Token, known+1)
	}

	// The operator read a higher token in the storage: the lost directories knew it.
	kill(all)
	c.recoverAbove(known+50, 1, 2, 3)
	_, leader = c.startAll()
	if s, ok := c.status(leader); !ok || s.Token != known+51 {
		t.Errorf("got token %d, want %d", s.Token, known+51)
	}
}

// TestProcessRecoverNewNodesFirst recovers every node of a cluster in which two of three have lost
// their directories. The one with its directory is down while the others found the new cluster:
// their tokens continue above the given one, which is further away than a joiner may move a token
// (maxJoinJump), and the recovered node joins.
func TestProcessRecoverNewNodesFirst(t *testing.T) {
	t.Parallel()
	const above = 1000
	c := newNodes(t, 3)
	all, _ := c.startAll()
	leaveAll(all)
	for i := 2; i <= 3; i++ {
		if err := os.RemoveAll(c.store(i)); err != nil {
			t.Fatal(err)
		}
	}
	c.recoverAbove(above, 1, 2, 3)
	for i := 2; i <= 3; i++ {
		c.start(i)
	}
	c.awaitQuorum(2, 3)
	if s, ok := c.status(2); !ok || s.Token != above+1 {
		t.Errorf("founded without node 1: token %d, want %d", s.Token, above+1)
	}
	c.start(1)
	leader := c.settle(1, 2, 3)
	if s, ok := c.status(leader); !ok || s.Token <= above {
		t.Errorf("with node 1: token %d, want one above %d", s.Token, above)
	}
}

// recoverAbove recovers nodes above the fencing token of the leader with this token.
func (c *nodes) recoverAbove(token uint64, ids ...int) {
	c.t.Helper()
	above := member.Token{Version: token}.String()
	for _, i := range ids {
		args := []string{"recover", "--data-dir", c.store(i), "--tokens-above", above}
		code, stdout, stderr := run(c.t, args...)
		if code != 1 || !strings.Contains(stdout, "would continue above "+above+".") {
			c.t.Fatalf("unconfirmed: exit %d, %s, %s; want 1 and the token", code, stdout, stderr)
		}
		code, stdout, stderr = run(c.t, append(args, "--confirm", "athena")...)
		if code != 0 || !strings.Contains(stdout, "continue above "+above+".") {
			c.t.Fatalf("exit %d, %s, %s; want 0 and the token", code, stdout, stderr)
		}
	}
}

// leaveBehind makes nodes 2 and 3, which are down, elect a leader while node 1 is down too. It
// returns the highest token that node 1 knows, which is lower, and the two nodes.
func (c *nodes) leaveBehind() (known uint64, others []*process) {
	c.t.Helper()
	content, _, err := store.Peek(c.store(1))
	if err != nil {
		c.t.Fatal(err)
	}
	known = content.HighestToken()
	others = []*process{c.start(2), c.start(3)}
	eventually(c.t, "a token that node 1 does not know", func() bool {
		s, ok := c.status(2)
		return ok && s.Token > known
	})
	return known, others
}

// TestProcessRecoverWithoutStore runs recover with a misspelled directory, and with the parent of
// the nodes' directories. It must create no store, and must not report that a node can start. With
// a token and the name of the cluster it creates one, but not beside other files. There resize
// succeeds, because a new node needs none, and creates no store.
func TestProcessRecoverWithoutStore(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir := filepath.Join(above, "mistyped")
	for _, dir := range []string{dir, above} {
		code, _, stderr := run(t, "recover", "--data-dir", dir, "--confirm", "athena")
		if code != 1 || !strings.Contains(stderr, "no state in "+dir) ||
			strings.Contains(stderr, "can start") {
			t.Errorf("exit %d, %s; want 1 and an error about a missing store", code, stderr)
		}
		code, stdout, stderr := run(t, "resize", "--to", "5", "--data-dir", dir)
		if code != 0 || !strings.HasPrefix(stdout, "No state in "+dir+": nothing was changed.") {
			t.Errorf("resize: exit %d, %s%s; want 0 and that nothing was changed", code, stdout, stderr)
		}
	}
	given := []string{"recover", "--data-dir", dir, "--tokens-above", "7000000000017"}
	if code, stdout, stderr := run(t, given...); code != 1 ||
		!strings.Contains(stdout, "would continue above 7000000000000.") ||
		!strings.Contains(stderr, "add --confirm CLUSTER") {
		t.Errorf("unconfirmed: exit %d, %s%s; want 1, version 7 and a mention of --confirm", code,
			stdout, stderr)
	}
	high := []string{"recover", "--data-dir", dir, "--tokens-above", "4194305"}
	if code, _, stderr := run(t, high...); code != 2 ||
		!strings.Contains(stderr, "--tokens-above 4194305: version 4194305 is above the limit 4194304") {
		t.Errorf("unconfirmed, too high: exit %d, %s; want 2 and the limit", code, stderr)
	}
	if made, err := os.ReadDir(above); err != nil || len(made) != 0 {
		t.Errorf("%v were created, %v", made, err)
	}
	if code, _, stderr := run(t, append(given, "--confirm", "athena")...); code != 0 {
		t.Fatalf("a lost directory: exit %d, %s", code, stderr)
	}
	if c, known, err := store.Peek(dir); !known || c.Floor != 7 || c.Origin.Cluster != "athena" {
		t.Errorf("got floor %d of %+v, %v; want 7", c.Floor, c.Origin, err)
	}
	given[2] = above
	if code, _, stderr := run(t, append(given, "--confirm", "athena")...); code != 1 ||
		!strings.Contains(stderr, "no state in "+above+", but "+dir) {
		t.Errorf("a directory of others: exit %d, %s; want 1 and its content", code, stderr)
	}
	if code, _, stderr := run(t, "recover"); code != 2 || !strings.Contains(stderr, "--data-dir") {
		t.Errorf("without a directory: exit %d, %s; want 2 and a mention of --data-dir", code, stderr)
	}
}
