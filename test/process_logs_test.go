// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// waitForLines waits until a process has written the given number of lines with a text.
func (p *process) waitForLines(text string, count int) {
	p.t.Helper()
	got := 0
	eventually(p.t, fmt.Sprintf("%d lines with %q", count, text), func() bool {
		got = 0
		for line := range strings.Lines(p.stderr.String()) {
			if strings.Contains(line, `"message":"`+text+`"`) || strings.Contains(line, " "+text+" ") ||
				strings.HasSuffix(line, " "+text+"\n") {
				got++
			}
		}
		return got >= count
	})
	if got > count {
		p.t.Errorf("%d lines contain %q, want %d", got, text, count)
	}
}

// TestProcessLogs checks each log line of a daemon, from start to end, against docs/logs.md, and
// checks that a single event is logged only once.
func TestProcessLogs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := logRows(string(page))
	env, err := exec.LookPath("env")
	if err != nil {
		t.Skip("env is not installed")
	}
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := newNodes(t, 1)
	flags := c.flags(1, "--log-format", "json", "--log-level", "debug", "--admin-write")
	p := startCommand(t, nil, exec.Command(env, append([]string{"ATHENA_SIZZE=3", bin}, flags...)...))
	c.settle(1)
	if code, _, stderr := run(t, "leave", "--admin", c.admin(1)); code != 0 {
		t.Fatalf("athena leave: exit %d, %s", code, stderr)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	for _, text := range []string{
		"ignored an unknown environment variable", "starting", "started", "leader changed",
		"stopping: the admin API requested it", "leaving the cluster", "left the cluster", "ended",
	} {
		p.waitForLines(text, 1)
	}
	for line := range strings.Lines(p.stderr.String()) {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("not a line of JSON: %q: %v", line, err)
			continue
		}
		text, _ := fields["message"].(string)
		level, _ := fields["level"].(string)
		row, known := rows[text]
		if !known || !strings.HasPrefix(strings.ToUpper(level), row.level[:1]) {
			t.Errorf("%s is not in docs/logs.md", line)
		}
		for field := range fields {
			common := []string{"level", "message", "time", "node"}
			if !slices.Contains(row.fields, field) && !slices.Contains(common, field) {
				t.Errorf("docs/logs.md has no field %q of %s", field, line)
			}
		}
	}
}

// TestProcessLogsOfASignal checks the log of a node that is stopped before it has joined.
func TestProcessLogsOfASignal(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 2)
	p := c.start(1, "--join-only")
	eventually(t, "n1 starts", func() bool {
		return strings.Contains(p.stderr.String(), "INF started")
	})
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	p.waitForLines("stopping on a signal; a second signal forces an immediate exit", 1)
	p.waitForLines("stopped before joining", 1)
}
