// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
)

// roleRunner is the role of a child that executes a whole run, for a test that kills it.
const roleRunner = "test runner"

// roleClock is the role of a child that prints its time, and how far its own clock is ahead.
const roleClock = "test clock"

// TestMain makes the test program usable as a child process, like the command.
func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case roleClock:
		at := readMonotonic()
		if err := os.Unsetenv(clockVariable); err != nil {
			panic(err)
		}
		fmt.Println(at, readMonotonic()-at)
	case roleRunner:
		if err := os.Unsetenv(roleVariable); err != nil {
			panic(err)
		}
		o := testOptions(os.Getenv(taskVariable), time.Minute)
		fmt.Fprintln(os.Stderr, runChaos(context.Background(), o, os.Stdout))
		os.Exit(1)
	default:
		os.Exit(childMain(role))
	}
}

func testOptions(out string, length time.Duration) options {
	return options{
		nodes: 3, seed: rand.Uint64() >> 32, length: length, out: out,
		daemons: 1, config: cluster.DefaultConfig(), minFaults: 2, guards: true,
	}
}

func mustBeAble(t *testing.T) {
	t.Helper()
	if reason := whyUnable(); reason != "" {
		t.Skip(reason)
	}
}

// TestChaos runs three real nodes, one of them a daemon, under faults for a short time. The
// full run is "make chaos".
func TestChaos(t *testing.T) {
	mustBeAble(t)
	dir, err := os.MkdirTemp("", "athena-chaos-test-")
	if err != nil {
		t.Fatal(err)
	}
	o := testOptions(dir, 15*time.Second)
	o.athena = filepath.Join(t.TempDir(), "athena")
	build := exec.Command("go", "build", "-o", o.athena, "../../cmd/athena")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/athena: %v\n%s", err, out)
	}
	o.history = filepath.Join(dir, "history")
	var out bytes.Buffer
	if err := runChaos(t.Context(), o, &out); err != nil {
		t.Fatalf("%v\n%s\nevidence: %s", err, &out, dir)
	}
	t.Logf("%s", &out)
	for _, folder := range []string{o.history, filepath.Join(o.history, otherDir)} {
		runs, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || len(runs) < o.nodes {
			t.Errorf("%s: %d files of steps, %v, want one for each of %d nodes", folder, len(runs), err,
				o.nodes)
		}
	}
	f, err := auditFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.tokens) == 0 || f.events.events == 0 || f.seats.commits == 0 ||
		f.claims.started[typo] == 0 {
		t.Errorf("%d tokens, %d events, %d commits, %d typos, want some of each:\n%s",
			len(f.tokens), f.events.events, f.seats.commits, f.claims.started[typo], &out)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// TestRunnerKilled checks that the children of a killed run die with it, and that the next run
// removes everything else that it left.
func TestRunnerKilled(t *testing.T) {
	mustBeAble(t)
	out := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+roleRunner, taskVariable+"="+out)
	printed, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for b := make([]byte, 4096); !strings.Contains(text.String(), "step 0"); {
		n, err := printed.Read(b)
		if err != nil {
			t.Fatalf("the run ended early: %v\n%s", err, &text)
		}
		text.Write(b[:n])
	}
	id := worldOf(t, cmd.Process.Pid)
	if names := leftOf(t, id); len(names) < 5 {
		t.Errorf("while it runs: %q, want three namespaces, one for the bridge, and a folder", names)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the run was killed but succeeded")
	}
	if err := cleanLeftovers(); err != nil {
		t.Fatal(err)
	}
	if names := leftOf(t, id); len(names) > 0 {
		t.Errorf("left over: %q, want nothing", names)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), id) {
		t.Errorf("mounts: %v\n%s\nwant none of %s", err, mounts, id)
	}
}

// TestRemoveBesideCleanup checks that a world is not removed while another run cleans up, because
// both could then remove parts of the same world.
func TestRemoveBesideCleanup(t *testing.T) {
	mustBeAble(t)
	w, err := newWorld(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	cleanup, err := lockWorlds()
	if err != nil {
		t.Fatal(err)
	}
	removed := make(chan error, 1)
	go func() { removed <- w.removeAll() }()
	select {
	case err := <-removed:
		t.Errorf("removed during the cleanup of another run, error %v", err)
		cleanup.Close()
		return
	case <-time.After(time.Second):
	}
	cleanup.Close()
	if err := <-removed; err != nil {
		t.Error(err)
	}
}

// worldOf returns the name of a runner's world, from the task of one of its children.
func worldOf(t *testing.T, runner int) string {
	t.Helper()
	tasks, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks {
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "status")) // it may have ended
		text, _ := os.ReadFile(path)
		if !bytes.Contains(status, fmt.Appendf(nil, "\nPPid:\t%d\n", runner)) {
			continue
		}
		for variable := range bytes.SplitSeq(text, []byte{0}) {
			value, ok := bytes.CutPrefix(variable, []byte(taskVariable+"="))
			var task registerTask
			if ok && json.Unmarshal(value, &task) == nil && task.Socket != "" {
				return filepath.Base(filepath.Dir(task.Socket))
			}
		}
	}
	t.Fatalf("process %d has no register", runner)
	return ""
}

// leftOf lists what remains of a world on this machine.
func leftOf(t *testing.T, id string) (all []string) {
	t.Helper()
	for _, pattern := range []string{
		filepath.Join(netnsDir, id+"-*"), filepath.Join(worldsDir, id),
		"/sys/fs/cgroup/memory/" + id + "-*", "/sys/fs/cgroup/memory/*/*/" + id + "-*",
		"/sys/fs/cgroup/" + id + "-*",
	} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, names...)
	}
	return all
}

// TestUnable checks that the runner reports what is missing on an unsuitable machine.
func TestUnable(t *testing.T) {
	if needsRoot() != nil {
		t.Skip("not root, which would be reported first")
	}
	t.Setenv("PATH", t.TempDir())
	if reason := whyUnable(); !strings.Contains(reason, "not installed (make tools") {
		t.Errorf("without programs: %q, want what to install", reason)
	}
	for _, name := range []string{"run", "soak", "events"} {
		err := runCommand(t.Context(), []string{name})
		var said strings.Builder
		code := reportFailure(err, &said)
		if code != 3 || !strings.HasPrefix(said.String(), "chaos: skipped: ") ||
			!strings.HasSuffix(said.String(), "; nothing was checked\n") {
			t.Errorf("%s without programs: code %d, %q, want 3 and that nothing was checked",
				name, code, &said)
		}
	}
}

// TestHelp checks that -h lists every command and explains every flag.
func TestHelp(t *testing.T) {
	var said strings.Builder
	printHelp(&said)
	for _, part := range []string{
		"chaos run    [flags]", "chaos soak   [flags]", "chaos check DIR", "chaos clean",
		"chaos events [flags]", "chaos stuck  [flags]",
		"(default 5m0s)", "(default 2h0m0s)", "(default 10000000)", "(default 1m0s)",
	} {
		if !strings.Contains(said.String(), part) {
			t.Errorf("help does not contain %q:\n%s", part, &said)
		}
	}
	listed := map[string]int{}
	for _, c := range commands {
		f, _ := makeFlags(c.name)
		f.VisitAll(func(f *flag.Flag) {
			if listed[f.Name]++; f.Usage == "" {
				t.Errorf("chaos %s: -%s has no meaning", c.name, f.Name)
			}
		})
	}
	for name, want := range listed {
		n := strings.Count(said.String(), "\n  -"+name+" ") +
			strings.Count(said.String(), "\n  -"+name+"\n") // a bool
		if n != want {
			t.Errorf("-%s is listed %d times, want once for each of %d commands", name, n, want)
		}
	}
	if err := runCommand(t.Context(), []string{"-h"}); err != nil {
		t.Errorf("-h: %v", err)
	}
}

func TestParse(t *testing.T) {
	o, err := parseFlags("run", nil)
	if err != nil || o.nodes != 5 || o.minFaults != 60 || o.minChanges != 10 || o.seed == 0 {
		t.Errorf("run: %+v, %v, want five nodes, 60 faults, 10 changes and a seed", o, err)
	}
	o, err = parseFlags("soak", []string{"-for", "4h", "-n", "9"})
	if err != nil || !o.soak || o.nodes != 9 || o.minFaults != 2880 {
		t.Errorf("soak: %+v, %v, want 2880 faults in four hours", o, err)
	}
	o, err = parseFlags("events", []string{"-events", "7"})
	if err != nil || o.events != 7 || o.nodes != 5 || o.plain {
		t.Errorf("events: %+v, %v, want seven of five nodes", o, err)
	}
	o, err = parseFlags("stuck", []string{"-payload", "9"})
	if err != nil || !o.stuck || o.payload != 9 || o.nodes != 11 || !o.plain {
		t.Errorf("stuck: %+v, %v, want nine bytes of eleven nodes on loopback", o, err)
	}
	for _, wrong := range []string{"events -n 2", "events -events 0", "stuck -n 1", "stuck -n 12",
		"stuck -payload 0", "stuck -payload 65537"} {
		args := strings.Fields(wrong)
		if _, err := parseFlags(args[0], args[1:]); err == nil {
			t.Errorf("%q: no error, want one", wrong)
		}
	}
	for _, args := range [][]string{{"-n", "0"}, {"-n", "10"}, {"-for", "0s"}, {"more"}} {
		if _, err := parseFlags("run", args); err == nil {
			t.Errorf("%q: no error, want one", args)
		}
	}
	for _, args := range [][]string{
		{}, {"walk"}, {"check"}, {"check", "-h"}, {"clean", "-h"},
	} {
		err := runCommand(t.Context(), args)
		if !errors.Is(err, errUsage) || reportFailure(err, io.Discard) != 2 {
			t.Errorf("%q: %v, want the usage", args, err)
		}
	}
}
