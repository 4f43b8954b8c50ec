// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestExamplesLeave checks that every example leaves gracefully on both signals that users and
// supervisors send.
func TestExamplesLeave(t *testing.T) {
	paths, err := filepath.Glob("../examples/*/main.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("examples: %q, %v, want some", paths, err)
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := "signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)"
		if !strings.Contains(string(source), want) {
			t.Errorf("%s: want %s in it", path, want)
		}
	}
}

func buildExample(t *testing.T, name string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-o", path, "./examples/"+name)
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// startExample starts a process of an example for each address. The address, the secret file and
// the data directory are in its environment, the seeds are its arguments.
func (c *nodes) startExample(path string) (all []*process) {
	c.t.Helper()
	return c.startExampleBy(func(int) *exec.Cmd { return exec.Command(path, c.addrs...) })
}

// startExampleBy is like startExample, but node i is started by the given command.
func (c *nodes) startExampleBy(command func(i int) *exec.Cmd) (all []*process) {
	c.t.Helper()
	for i, a := range c.addrs {
		cmd := command(i + 1)
		cmd.Env = []string{
			"ADDR=" + a, "DATA_DIR=" + c.store(i+1), "SECRET_FILE=" + filepath.Join(c.dir, "secret"),
		}
		all = append(all, startCommand(c.t, nil, cmd))
	}
	return all
}

// TestExampleEmbed checks that the program of README.md names what its configuration lacks, elects
// a leader, and leaves on SIGTERM.
func TestExampleEmbed(t *testing.T) {
	t.Parallel()
	path := buildExample(t, "embed")
	p := startCommand(t, nil, exec.Command(path))
	if code := p.wait(); code != 1 || !strings.Contains(p.stderr.String(), "Addr is required") {
		t.Errorf("without an address: exit %d, error\n%s\nwant 1 and its name", code, &p.stderr)
	}

	c := newNodes(t, 3)
	all := c.startExample(path)
	led := regexp.MustCompile(`(?m)leader of version \d+ is \S+$`)
	for i, p := range all {
		eventually(t, c.addrs[i]+" has a leader and hears the others", func() bool {
			said := p.stdout.String()
			return led.MatchString(said) && strings.Count(said, " says hi") > 1
		})
	}
	stopProcess(t, all[0])
	eventually(t, "another one sees it leave", func() bool {
		return strings.Contains(all[1].stdout.String(), c.addrs[0]+" is removed, was leaving")
	})
}

// TestExampleGuide runs the program of docs/guide.md. Every process must be able to query the
// leader, and one must leave gracefully.
func TestExampleGuide(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	all := c.startExample(buildExample(t, "guide"))
	for i, p := range all {
		eventually(t, c.addrs[i]+" hears how far the leader is", func() bool {
			return strings.Contains(p.stdout.String(), "the leader has counted to ")
		})
	}
	stopProcess(t, all[0])
}

// TestExampleCommands pastes the commands in the comments of the programs of README.md and
// docs/guide.md into a shell, on free ports. A signal to a job must reach the program: it leaves on
// SIGTERM, and another one sees SIGKILL.
func TestExampleCommands(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed: other shells have no job control in scripts")
	}
	athena, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"embed", "guide"} {
		comment, _, _ := strings.Cut(string(readExample(t, "examples/"+name+"/main.go")), "\npackage ")
		var commands []string
		for _, m := range regexp.MustCompile(`(?m)^//\t(.*)$`).FindAllStringSubmatch(comment, -1) {
			commands = append(commands, strings.TrimSuffix(m[1], "&")+" ")
		}
		if len(commands) != 6 || commands[0] != "go build -o try/ ./cmd/athena ./examples/"+name+" " {
			t.Fatalf("examples/%s has the commands %q, want a build and three processes", name, commands)
		}
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "try"), 0o700); err != nil {
			t.Fatal(err)
		}
		for file, path := range map[string]string{"athena": athena, name: buildExample(t, name)} {
			if err := os.Symlink(path, filepath.Join(dir, "try", file)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range commands[3:] {
			commands[3+i] += fmt.Sprintf("> out%d 2>&1 &", i)
		}
		script := onFreePorts(t, strings.Join(commands[1:], "\n")) + "\n" + strings.Join([]string{
			"for i in 0 1 2; do until grep -q 'leader' out$i; do sleep 0.05; done; done",
			"kill %1; wait %1; kill -9 %2; wait %2 || echo killed $?; kill %3; wait %3",
		}, "\n")
		cmd := exec.Command(bash, "-euc", script)
		cmd.Dir = dir
		p := startCommand(t, nil, cmd)
		if code := p.wait(); code != 0 || p.stdout.String() != "killed 137\n" {
			t.Errorf("%s\nexit %d, output %q, want 0 and the exit code of SIGKILL", script, code, &p.stdout)
		}
	}
}

// stopProcess checks that an example ends without an error after SIGTERM.
func stopProcess(t *testing.T, p *process) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("after SIGTERM: exit %d, want 0", code)
	}
}
