// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestProcessWithoutFreeDescriptors lets callers of the admin API hold every file descriptor that a
// node may use. The node must warn about such a low limit at its start. Even without free
// descriptors it must save what the cluster decides, and stay a member.
func TestProcessWithoutFreeDescriptors(t *testing.T) {
	t.Parallel()
	const limit = 64
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("sh is not installed")
	}
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := newNodes(t, 3)
	script := fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, limit)
	command := append([]string{"-c", script, bin}, c.flags(1)...)
	starved := startCommand(t, nil, exec.Command(sh, command...))
	c.start(2)
	third := c.start(3)
	c.settle(1, 2, 3)
	starved.waitForLines("the limit on open files is low, so the admin API may refuse connections: "+
		"raise it with ulimit -n, or with LimitNOFILE= in systemd", 1)

	var callers []net.Conn
	closeAll := func() {
		for _, conn := range callers {
			conn.Close()
		}
	}
	defer closeAll()
	for range 2 * limit {
		conn, err := net.Dial("unix", strings.TrimPrefix(c.admin(1), "unix:"))
		if err != nil {
			break // the queue is full: the node accepts no more connections
		}
		callers = append(callers, conn)
	}
	eventually(t, "the node has no free descriptor", func() bool {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", starved.cmd.Process.Pid))
		return err == nil && len(open) >= limit
	})

	state := filepath.Join(c.store(1), "athena.state")
	for range 3 { // each round removes a member from the cluster and adds it again
		before, err := os.ReadFile(state)
		if err != nil {
			t.Fatal(err)
		}
		third.signal(syscall.SIGTERM)
		third.wait()
		third = c.start(3)
		eventually(t, "three members are active", func() bool {
			s, ok := c.status(3)
			return ok && s.Token != 0 && s.Active() == 3
		})
		eventually(t, "the node has saved", func() bool {
			select {
			case <-starved.exited:
				t.Fatalf("node stopped: %s", starved.stderr.String())
			default:
			}
			now, err := os.ReadFile(state)
			return err == nil && !bytes.Equal(before, now)
		})
	}
	closeAll()
	c.settle(1, 2, 3)
}
