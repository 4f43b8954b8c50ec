// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestProcessStoreOfSomethingElse restarts the members of a cluster of three with their stores but
// with different flags. None of them becomes a leader. Each prints the value of the flag, the value
// in the store and a remedy, exits with 2, and does not change its store. With the original flags
// the cluster continues.
func TestProcessStoreOfSomethingElse(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	all, leader := c.startAll()
	before, _ := c.status(leader)
	for _, p := range all {
		p.signal(syscall.SIGKILL)
		p.wait()
	}
	other := freeAddresses(t, 1)[0]
	for _, k := range []struct {
		name                string
		node                int
		addr, size, cluster string
		want                string
	}{
		{"size of one", 1, c.addrs[0], "1", "athena", "--size 1: the store was made for 3: "},
		{"size of the next", 2, c.addrs[1], "1", "athena", "--size 1: the store was made for 3: "},
		{"cluster", 1, c.addrs[0], "3", "other",
			`--cluster "other": the store was made for "athena": `},
		{"address", 1, other, "3", "athena",
			"--advertise " + other + ": the store was made for " + c.addrs[0] + ": "},
	} {
		path := filepath.Join(c.store(k.node), "athena.state")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := run(t, "run", "--addr", k.addr, "--size", k.size,
			"--cluster", k.cluster, "--seeds", k.addr, "--data-dir", c.store(k.node),
			"--secret-file", filepath.Join(c.dir, "secret"))
		if code != 2 || stdout != "" || !strings.Contains(stderr, c.store(k.node)+"\n"+k.want) {
			t.Errorf("%s: exit %d, output %q, error\n%s\nwant 2 and %q",
				k.name, code, stdout, stderr, k.want)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, whole) {
			t.Errorf("%s: the file is %q, %v, want it untouched", k.name, now, err)
		}
	}
	_, leader = c.startAll()
	if after, _ := c.status(leader); after.Token <= before.Token {
		t.Errorf("after that: token %d, want one above %d", after.Token, before.Token)
	}
}
