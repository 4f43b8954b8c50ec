// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/receiver"
)

// TestProcessMemberBuilds runs two daemons and a program of another build. athena members shows the
// build of each, and - for a daemon that stops answering.
func TestProcessMemberBuilds(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	all := []*process{c.start(1), c.start(2)}
	mux := receiver.NewMux()
	others := admin.Answer(mux, "other/v7", nil)
	other, err := cluster.Start(t.Context(), cluster.Config{
		Addr: c.addrs[2], Name: "n3", Size: 3, Seeds: c.addrs, Memory: true, Receiver: mux,
		SecretFile: filepath.Join(c.dir, "secret"),
	}, cluster.WithListening(others.Use))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.WaitActive(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	s, ok := c.status(1)
	if !ok || s.Build == "" {
		t.Fatalf("the build of n1 is %q", s.Build)
	}
	expect := func(of2 string) {
		t.Helper()
		want := map[string]string{"n1": s.Build, "n2": of2, "n3": "other/v7"}
		eventually(t, fmt.Sprint("the builds ", want), func() bool {
			code, stdout, stderr := run(t, "members", "--admin", c.admin(1))
			header, table, _ := strings.Cut(stdout, "\n")
			at := strings.Index(header, "BUILD")
			if code != 0 || at < 0 {
				t.Fatalf("members: exit %d, %s%s", code, stdout, stderr)
			}
			got := map[string]string{}
			for line := range strings.Lines(table) {
				got[line[:2]] = strings.TrimSpace(line[at:])
			}
			return maps.Equal(got, want)
		})
	}
	expect(s.Build)
	all[1].signal(syscall.SIGSTOP)
	expect("-")
	all[1].signal(syscall.SIGCONT)
	expect(s.Build)
}
