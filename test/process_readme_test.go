// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

var (
	shellBlock = regexp.MustCompile("(?s)\n\n```\n(.*?)```")
	nodeAddr   = regexp.MustCompile(`127\.0\.0\.1:700\d`)
	adminAddr  = regexp.MustCompile(`127\.0\.0\.1:707\d`)
)

// TestReadmeByHand pastes the commands of README.md for three nodes on one machine into a
// shell, on free ports, and follows its next steps.
func TestReadmeByHand(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed: other shells have no job control in scripts")
	}
	commands := onFreePorts(t, byHand(t))
	admins := regexp.MustCompile(`--admin (\S+) 2>`).FindAllStringSubmatch(commands, -1)
	if len(admins) != 3 {
		t.Fatalf("README.md starts\n%s\nwant three nodes", commands)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(dir, "bin/athena")); err != nil {
		t.Fatal(err)
	}
	// Wait here only as long as the cluster needs.
	commands = strings.Replace(commands, "sleep 1\n", settled(admins[0][1], 3), 1)
	commands = strings.Replace(commands, "make build\n", "", 1)
	first := regexp.MustCompile(`(?m)^.*try/1 .*$`).FindString(commands)
	sh := exec.Command(bash, "-euc", strings.Join([]string{
		commands,
		"kill -9 %1; wait %1 || :", settled(admins[2][1], 2), first, settled(admins[2][1], 3),
		"kill %2; wait %2", settled(admins[2][1], 2),
		"echo END; kill %3 %4; wait",
	}, "\n"))
	var out text
	sh.Dir, sh.Stdout, sh.Stderr = dir, &out, &out
	sh.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sh.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-sh.Process.Pid, syscall.SIGKILL) // the remaining processes
		if t.Failed() {
			t.Logf("%s\nprints\n%s", commands, &out)
		}
	})
	eventually(t, "the commands of README.md are done", func() bool { return len(ended) == 1 })
	members := strings.Count(strings.Split(out.String(), "END")[0], " active ")
	if err := <-ended; err != nil || members != 3 {
		t.Errorf("README.md by hand: %v, %d active members, want none and 3", err, members)
	}
}

// byHand returns the only block of README.md that starts nodes.
func byHand(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, b := range shellBlock.FindAllSubmatch(readme, -1) {
		if strings.Contains(string(b[1]), "athena run") {
			found = append(found, string(b[1]))
		}
	}
	if len(found) != 1 {
		t.Fatalf("README.md starts nodes in %d blocks, want 1: %q", len(found), found)
	}
	return found[0]
}

// onFreePorts replaces the port of every address in the commands with a free one.
func onFreePorts(t *testing.T, commands string) string {
	t.Helper()
	free := map[string]string{}
	for _, a := range nodeAddr.FindAllString(commands, -1) {
		free[a] = ""
	}
	addrs := freeAddresses(t, len(free))
	for a := range free {
		free[a], addrs = addrs[0], addrs[1:]
	}
	for _, a := range adminAddr.FindAllString(commands, -1) {
		if free[a] == "" {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close() // closed at the end, so that no port is found twice
			free[a] = l.Addr().String()
		}
	}
	at := regexp.MustCompile(nodeAddr.String() + "|" + adminAddr.String())
	return at.ReplaceAllStringFunc(commands, func(a string) string { return free[a] })
}

// settled returns a command that waits until a node sees a leader with authority and the given
// number of active members.
func settled(admin string, active int) string {
	return fmt.Sprintf("until bin/athena leader --admin %s && "+
		"[ $(bin/athena members --admin %s | grep -c ' active ') = %d ]\n"+
		"do sleep 0.05; done > poll 2>&1\n", admin, admin, active)
}
